"""The ledger: an MCP server in plain lines, which starts in no time. `crash_ledger.py OUTSIDE`: each call is a line there."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

ARGUMENTS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}
TOOLS = [{"name": "look", "description": "Looks something up.", "inputSchema": ARGUMENTS},
         {"name": "enter", "description": "Makes an entry.", "inputSchema": ARGUMENTS}]


def called(tool: str, id_: str) -> str:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, f"ledger.{tool} {id_}\n".encode())
    os.close(file)
    return f"{id_} is known" if tool == "look" else f"entered {id_}"


def answered(asked: dict[str, Any]) -> dict[str, Any] | None:
    match asked.get("method"):
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "ledger", "version": "0"}}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            said = called(asked["params"]["name"], asked["params"]["arguments"]["id"])
            return {"content": [{"type": "text", "text": said}]}
    return {} if "id" in asked else None


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        result = answered(asked)
        if result is not None and "id" in asked:
            try:
                sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:             # the run was killed while it waited
                os._exit(0)


if __name__ == "__main__":
    main()
