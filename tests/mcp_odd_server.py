"""An MCP server that keeps to no rule: it offers what a file holds, and misbehaves as its tools are called. Plain lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any


def made(value: Any) -> Any:
    """`{repeat, times}`, `{nested}` and `fan_out` as what they stand for: too large for a table of cases."""
    if isinstance(value, list):
        return [made(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "repeat" in value:
        return value["repeat"] * value["times"]
    if "nested" in value:
        found: Any = {"type": "string"}
        for _ in range(value["nested"]):
            found = {"type": "array", "items": found}
        return found
    if "fan_out" in value:
        levels = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level - 1}" if level else "#/$defs/base"}] * value["fan_out"]}
                  for level in range(10)}
        return {**levels, "base": value["base"]}
    return {name: made(part) for name, part in value.items()}


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def answer(id_: Any, result: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}) + "\n")


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def misbehave(id_: Any, what: str) -> None:
    if what == "huge":
        answer(id_, text("y" * 10_000_000))
    elif what == "endless":
        for _ in range(20_000):
            say("z" * 65536)
    elif what == "chatter":
        say("Listening on port 3000 {not json\n\n[1, 2]\n\x1b[2J\n")
        answer(id_, text("still here"))
    elif what == "nonsense":
        answer(id_, {"content": "not a list"})
    elif what == "tell_secret":
        answer(id_, text(f"the key is {os.environ['KEY']}"))
    elif what == "crash":
        sys.stderr.write(f"panic: bad key {os.environ['KEY']}\n")
        os._exit(9)
    elif what == "children":
        apart = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
        answer(id_, text(f"started {apart.pid}"))
    elif what == "deaf":
        time.sleep(300)
    elif what == "silent":
        pass


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        tools = made(json.load(file))
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.get("method"):
            case "initialize":
                answer(asked["id"], {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                     "serverInfo": {"name": "odd", "version": "0"}})
            case "tools/list":
                first, rest = tools[:-1], tools[-1:]                # in two pages, or one where there is one tool
                cursor = asked.get("params", {}).get("cursor")
                page = {"tools": rest} if cursor else {"tools": first, "nextCursor": "2"}
                answer(asked["id"], page)
            case "tools/call":
                misbehave(asked["id"], asked["params"]["name"])


if __name__ == "__main__":
    main()
