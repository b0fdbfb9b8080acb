"""An MCP server (plain lines) and spellings of a secret: whoever is given one says it back in every way."""

from __future__ import annotations

import base64
import html
import json
import os
import sys
from typing import Any
from urllib.parse import quote, quote_plus

ERRORS = {("list_error", "tools/list"), ("greeting_error", "initialize"), ("call_error", "tools/call")}
HEARD = 2000            # characters that are kept of what a server writes beside its messages


def spelled(secret: str, how: str) -> str:
    ways = {"percent": quote(secret, safe=""), "lower": _lower(quote(secret, safe="")), "plus": quote_plus(secret),
            "base64": base64.b64encode(secret.encode()).decode(), "basic": base64.b64encode(f"user:{secret}".encode()).decode(),
            "json": json.dumps(secret), "html": html.escape(secret), "hex": secret.encode().hex(),
            "cut": "y" * (100_000 - len(secret) // 2) + secret, "named": secret.encode().hex(), "listed": secret.encode().hex()}
    return ways.get(how, secret)


def _lower(text: str) -> str:
    """Percent-encoded with small letters, as some write it."""
    parts = text.split("%")
    return parts[0] + "".join("%" + part[:2].lower() + part[2:] for part in parts[1:])


def offered(tool: dict[str, Any], told: str, how: str) -> list[dict[str, Any]]:
    """The list of tools, with a secret in it."""
    properties, also = tool["inputSchema"]["properties"], dict(tool)
    match how:
        case "named" | "listed":                                    # as a name may be spelt
            tool["name"] = f"tell_{told}"
        case "refused":
            also["name"] = f"tell {told}"
        case "refused_cut":
            also["name"] = "tell " + "y" * (55 - len(told) // 2) + told
        case "twice":
            also["name"] = f"tell_{told}"
        case "key":
            properties[told] = {"type": "string"}
        case "enum":
            properties["which"] = {"type": "string", "enum": ["a", told]}
        case "titled":
            del tool["description"]
            tool["title"] = told
        case "described_cut":
            tool["description"] = "y" * (4000 - len(told) // 2) + told
        case "pattern":
            properties["which"] = {"type": "string", "pattern": f"^({told}"}
    return [tool] if also == tool or how not in ("refused", "refused_cut", "twice") else [tool, also]


def answered(told: str, how: str) -> dict[str, Any]:
    """The result of a call, with a secret beside its text."""
    content: dict[str, Any] = {"type": "text", "text": "done"}
    if how == "link":
        content = {"type": "resource_link", "uri": f"http://x.invalid/{told}", "name": told, "description": told}
    if how == "alien":
        content = {"type": told, "text": told}
    return {"content": [content], "structuredContent": {told: [told]} if how == "structured" else None}


def main() -> None:
    secret, how = os.environ["KEY"], sys.argv[1]
    told = spelled(secret, how)
    tool: dict[str, Any] = {"name": "tell", "description": f"Says it: {told}" if how == "described" else "Says it.",
                            "inputSchema": {"type": "object", "properties": {
                                "what": {"type": "string", "default": told if how == "schema" else "x", "description": "what"}}}}
    tools = offered(tool, told, how)
    for line in sys.stdin:
        asked = json.loads(line)
        result: Any = None
        if (how, asked.get("method")) in ERRORS:
            error = {"code": -32000, "message": f"bad key {told}", "data": {told: told}}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}) + "\n")
            sys.stdout.flush()
            continue
        match asked.get("method"):
            case "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                          "serverInfo": {"name": f"s {told}" if how == "greeting" else "s", "version": "0"},
                          "instructions": f"Say {told}" if how == "greeting" else ""}
            case "tools/list":
                result = {"tools": tools}
            case "tools/call" if how.startswith("crash"):
                more = "z" * (HEARD - len(told) // 2 - 1) + "\n" if how == "crash_cut" else ""
                sys.stderr.write(f"panic: bad key {told}\n{more}")
                sys.stderr.flush()
                os._exit(9)
            case "tools/call" if how in ("structured", "link", "alien"):
                result = answered(told, how)
            case "tools/call":
                text = told if how == "cut" else f"it is {told}"
                result = {"content": [{"type": "text", "text": text}], "isError": how == "error"}
        if result is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
