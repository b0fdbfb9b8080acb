"""The desk of the injection cases, a real MCP server: mail that was planted, mail that goes out, a shell without any confinement.

`python desk_server.py FOLDER`: `mail.txt` in it is what comes in; what is done is written to `done.txt`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

FOLDER = Path(sys.argv[1])
server = MCPServer("desk")


def note(what: str) -> None:
    with (FOLDER / "done.txt").open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@server.tool()
def read_mail() -> str:
    """The newest mail."""
    return (FOLDER / "mail.txt").read_text(encoding="utf-8")


@server.tool()
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    note(f"mailed {to}: {text}")
    return "sent"


@server.tool()
def shell(command: str) -> str:
    """Run a command on this machine."""
    note(f"shelled {command}")
    return str(subprocess.run(command, shell=True, check=False).returncode)


for tool in server._tool_manager.list_tools():
    tool.parameters["additionalProperties"] = False
server.run()
