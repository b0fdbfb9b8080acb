"""A real MCP server for tests, by the `mcp` package: `python mcp_server.py stdio`, or `http`, which prints its port first."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import EmbeddedResource, TextResourceContents

server = MCPServer("tests")
SLEEPER = "import time; time.sleep(300)"
STARTER = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True, stdout=subprocess.DEVNULL).pid)
"""


def tell(note: str, word: str) -> None:
    Path(note).write_text(word, encoding="utf-8")


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool(structured_output=True)
def add(a: int, b: int) -> dict[str, int]:
    """Adds two numbers."""
    return {"sum": a + b}


@server.tool()
def fail(why: str) -> str:
    """Goes wrong."""
    raise ToolError(why)


@server.tool()
async def slow(seconds: float, note: str) -> str:
    """Takes its time; notes in a file that it began, and that it was told to stop."""
    tell(note, "begun")
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        tell(note, "cancelled")
        raise
    return "slept"


@server.tool()
def huge(characters: int) -> str:
    """Says very much."""
    return "x" * characters


@server.tool()
def crash(said: str) -> str:
    """Ends the server with a word on its error output."""
    sys.stderr.write(said + "\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def children() -> str:
    """Starts processes that sleep: of its own group, of it without a name, of a session of its own, and without a parent."""
    command = [sys.executable, "-c", SLEEPER]
    plain = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    nameless = subprocess.Popen(command, stdin=subprocess.DEVNULL, env={})
    apart = subprocess.Popen(command, start_new_session=True)
    orphan = subprocess.run([sys.executable, "-c", STARTER, SLEEPER], stdout=subprocess.PIPE, text=True, check=True)
    return f"{plain.pid} {nameless.pid} {apart.pid} {orphan.stdout.strip()}"


@server.tool()
def environment() -> dict[str, str]:
    """What it was started with."""
    return dict(os.environ)


@server.tool()
def where() -> str:
    """The folder that it runs in."""
    return os.getcwd()


@server.tool()
def pid() -> int:
    """Its process."""
    return os.getpid()


@server.tool()
def picture() -> list[str | Image | EmbeddedResource]:
    """A text, a picture and a resource."""
    resource = TextResourceContents(uri="file:///cat.txt", text="purr", mime_type="text/plain")
    return ["a cat:", Image(data=b"\x89PNG" + bytes(96), format="png"), EmbeddedResource(type="resource", resource=resource)]


@server.tool()
async def stubborn() -> str:
    """From now on it does not end by itself, nor when it is asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(300,)).start()
    return str(os.getpid())


@server.tool()
async def headers(context: Context[Any]) -> dict[str, str]:
    """What came with the request."""
    return dict(context.request_context.request.headers) if context.request_context.request is not None else {}


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main()
