"""What the tests of MCP servers share: servers as a SOP names them, their tools by name, and who of them is still alive."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from patience import PATIENCE

from metaflow_agents.errors import UsageError
from metaflow_agents.schema.tools import ServerSpec
from metaflow_agents.tools.mcp import McpServer
from metaflow_agents.tools.port import Setting, Tool, ToolResult
from metaflow_agents.tools.secrets import Secrets

HERE = Path(__file__).parent
SECRETS = {"KEY": "sesame-open-4711"}


def secret(name: str) -> str:
    if name not in SECRETS:
        raise UsageError(f"the secret {name} is not set")
    return SECRETS[name]


def setting(folder: Path = HERE) -> Setting:
    return Setting(folder, secret, {"PATH": os.environ["PATH"]}, Secrets(SECRETS, SECRETS.get).masked)


def good(**spec: Any) -> McpServer:
    """tests/mcp_server.py over its pipes."""
    return McpServer("good", ServerSpec(command=sys.executable, args=(str(HERE / "mcp_server.py"), "stdio"), **spec), setting())


def odd(folder: Path, offers: Any, **spec: Any) -> McpServer:
    """tests/mcp_odd_server.py, which offers what is given."""
    (folder / "offers.json").write_text(json.dumps(offers), encoding="utf-8")
    words = (str(HERE / "mcp_odd_server.py"), str(folder / "offers.json"))
    return McpServer("odd", ServerSpec(command=sys.executable, args=words, env={"KEY": "${KEY}"}, **spec), setting())


def misbehaving(folder: Path, *names: str, **spec: Any) -> McpServer:
    """The same with tools that misbehave as they are called."""
    return odd(folder, [{"name": name, "inputSchema": {"type": "object"}} for name in names], **spec)


@asynccontextmanager
async def opened(server: McpServer) -> AsyncIterator[dict[str, Tool]]:
    """Its tools by their own names."""
    async with server.opened():
        yield {tool.name.partition(".")[2]: tool for tool in await server.tools()}


async def called(tool: Tool, **arguments: Any) -> ToolResult:
    return await tool.call(arguments, None)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    """Whether a process runs; one that is over and not yet taken away does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def until(holds: Callable[[], object]) -> bool:
    """Waits for something that is about to be, within patience."""
    async with asyncio.timeout(PATIENCE):
        while not holds():                  # noqa: ASYNC110  it is another process that makes it true
            await asyncio.sleep(0.02)
    return True


async def gone(*pids: int) -> bool:
    """Whether none of them runs, soon."""
    return await until(lambda: not any(map(alive, pids)))


def said(file: Path) -> str:
    """What a file holds, where it is there."""
    return file.read_text(encoding="utf-8") if file.exists() else ""


@contextmanager
def served(*words: str, env: Mapping[str, str] | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """tests/mcp_server.py on loopback: its URL and its process."""
    with subprocess.Popen([sys.executable, str(HERE / "mcp_server.py"), "http", *words], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **(env or {})}) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()
