"""Pairs for the keys that say what roles may do and with what: what `walk_pairs.py` hands on, shown by runs that act.

The model calls each tool that it is offered once, then it is done. The server is a real process that speaks MCP in plain
lines; the service is a socket that listens and never answers.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from metaflow_agents.models.port import ModelRequest, Reply, ToolCall

GIVEN: dict[str, Any] = {"text": "a word", "path": "docs/a.txt", "words": ["a", "bc"]}


async def acting(request: ModelRequest) -> Any:
    """Calls every tool once, with arguments that fit those of this file; then it answers with what it was told."""
    told = [str(message["content"]) for message in request.messages if message["role"] == "tool"]
    if told:
        return "\n".join(told)
    return Reply("", calls=tuple(ToolCall(id=f"c{number}", name=tool["name"], arguments=_arguments(tool["parameters"]))
                                 for number, tool in enumerate(request.tools)))


def _arguments(schema: Any) -> dict[str, Any]:
    return {name: GIVEN.get(name, 1) for name in schema.get("required", ())}


SERVER = '''
import json, sys
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("hear", "sleep")]
for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        case "tools/list":
            told = {"tools": TOOLS}
        case "tools/call" if asked["params"]["name"] == "hear":
            told = {"content": [{"type": "text", "text": "heard"}]}
        case "ping":
            told = {}
        case _:
            continue
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
'''
SILENT = socket.create_server(("127.0.0.1", 0))         # bound as long as the tests run; nobody accepts
ADDRESS = f"http://127.0.0.1:{SILENT.getsockname()[1]}"
SERVICE = json.dumps({
    "openapi": "3.1.0", "info": {"title": "shop", "version": "1"}, "servers": [{"url": ADDRESS}],
    "paths": {"/stock": {"get": {"operationId": "stock", "responses": {"200": {"description": "it"}}},
                         "post": {"operationId": "order", "responses": {"200": {"description": "it"}}}}}})
FUNCTIONS = '''
def count(words: list[str]) -> int:
    """How many words there are."""
    return len(words)
def letters(words: list[str]) -> int:
    """How many letters there are."""
    return len("".join(words))
'''
FILES = {"server.py": SERVER, "service.json": SERVICE, "counting.py": FUNCTIONS}

WRITER = """
sop: walk
roles: {writer: {profile: You write., tools: [write]}}
artifacts: {letter: {files: "docs/**"}}
steps: {write: {role: writer, makes: letter}}
"""
COUNTER = """
sop: walk
roles: {writer: {profile: You write., tools: [count]}}
tools: {count: {python: "counting:count"}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
"""
HEARER = """
sop: walk
policy: {allow: ["mcp(ear.*)"]}
mcpServers: {ear: {command: COMMAND, args: [server.py]}}
roles: {writer: {profile: You write., tools: [ear.hear]}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
""".replace("COMMAND", json.dumps(sys.executable))
SHOPPER = """
sop: walk
policy: {allow: ["api(shop.*)"]}
openapi: {shop: {spec: service.json, timeout: 0.1, operations: stock}}
roles: {writer: {profile: You write., tools: ["shop.*"]}}
artifacts: {letter: {}}
steps: {write: {role: writer, makes: letter}}
"""
CALLED_ONCE = """
sop: walk
inputs: {words: {type: [string], default: [a, bc]}}
artifacts: {size: {schema: integer}}
steps: {measure: {call: "counting:count", needs: [words], makes: size}}
"""

TOOLED = """
sop: walk
inputs: {words: {type: [string], default: [a, bc]}}
tools: {count: {python: "counting:count"}, letters: {python: "counting:letters"}}
artifacts: {size: {schema: any}}
steps: {measure: {tool: count, inputs: {words: words}, needs: [words], makes: size}}
"""


class Acted(NamedTuple):
    """A pair whose two sides are runs that act: see `Pair`."""

    at: str
    value: Any
    base: str
    also: Mapping[str, Any] = MappingProxyType({})
    instead: Any = None             # None: left out


ACTING = [
    Acted("policy", {"deny": ["write(docs/a.txt)"]}, WRITER),
    Acted("policy.preset", "danger-full-access", HEARER, {"policy": {}}),
    Acted("policy.allow", ["mcp(ear.*)"], HEARER, {"policy": {}}),
    Acted("policy.ask", ["write(docs/**)"], WRITER),
    Acted("policy.deny", ["write(docs/**)"], WRITER),
    Acted("roles.writer.policy", {"deny": ["write(docs/a.txt)"]}, WRITER),
    Acted("roles.writer.policy.allow", ["write(other/**)"], WRITER),
    Acted("roles.writer.policy.ask", ["write(docs/a.txt)"], WRITER),
    Acted("roles.writer.policy.deny", ["write(docs/a.txt)"], WRITER),
    Acted("roles.writer.tools", ["write", "list"], WRITER, instead=["write"]),
    Acted("steps.write.tools", ["list"], WRITER),
    Acted("tools.count.python", "counting:count", COUNTER, instead="counting:letters"),
    Acted("tools.count.description", "Counts what it is given.", COUNTER),
    Acted("tools.count.effect", "none", COUNTER),
    Acted("steps.measure.effect", "once", CALLED_ONCE),
    Acted("steps.measure.tool", "count", TOOLED, instead="letters"),
    Acted("steps.measure.inputs", {"words": "words"}, TOOLED, instead={"words": "words + words"}),
    Acted("steps.measure.parse", "json", TOOLED),
    Acted("mcpServers.ear.effects", {"hear": "none"}, HEARER),
    Acted("mcpServers.ear.timeout", 0.1, HEARER, {"roles.writer.tools": ["ear.sleep"]}, instead=0.2),
    Acted("openapi.shop.operations", ["order"], SHOPPER),
    Acted("openapi.shop.effects", {"stock": "once"}, SHOPPER),
    Acted("openapi.shop.timeout", 0.1, SHOPPER, instead=0.2),
]
