"""An MCP server (plain lines) and spellings of a secret: whoever is given one says it back in every way."""

from __future__ import annotations

import base64
import html
import json
import os
import sys
from typing import Any
from urllib.parse import quote, quote_plus


def spelled(secret: str, how: str) -> str:
    ways = {"percent": quote(secret, safe=""), "lower": _lower(quote(secret, safe="")), "plus": quote_plus(secret),
            "base64": base64.b64encode(secret.encode()).decode(), "basic": base64.b64encode(f"user:{secret}".encode()).decode(),
            "json": json.dumps(secret), "html": html.escape(secret), "hex": secret.encode().hex(),
            "cut": "y" * (100_000 - len(secret) // 2) + secret}
    return ways.get(how, secret)


def _lower(text: str) -> str:
    """Percent-encoded with small letters, as some write it."""
    parts = text.split("%")
    return parts[0] + "".join("%" + part[:2].lower() + part[2:] for part in parts[1:])


def main() -> None:
    secret, how = os.environ["KEY"], sys.argv[1]
    told = spelled(secret, how)
    tool: dict[str, Any] = {"name": "tell", "description": f"Says it: {told}" if how == "described" else "Says it.",
                            "inputSchema": {"type": "object", "properties": {
                                "what": {"type": "string", "default": told if how == "schema" else "x", "description": "what"}}}}
    for line in sys.stdin:
        asked = json.loads(line)
        result: Any = None
        match asked.get("method"):
            case "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                          "serverInfo": {"name": "s", "version": "0"}}
            case "tools/list":
                result = {"tools": [tool]}
            case "tools/call" if how == "crash":
                sys.stderr.write(f"panic: bad key {told}\n")
                sys.stderr.flush()
                os._exit(9)
            case "tools/call":
                text = told if how == "cut" else f"it is {told}"
                result = {"content": [{"type": "text", "text": text}], "isError": how == "error"}
        if result is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
