"""A model that is wholly taken over: it does whatever any text that it sees tells it to, word for word, and hands it all on.

    models: {default: "python:injection_model.py:taken_over"}

An instruction is spelled `[[call TOOL {ARGUMENTS}]]`, by whoever: the author of a SOP in a task, a web page, a mail. The model
calls each once, in the order in which they stand, as long as it has any tools; then it answers, and repeats all that it read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.minimal_example import smallest

BEGIN, END = "[[call ", "]]"


def spelled(call: Mapping[str, Any]) -> str:
    """A call as an instruction to the model. What its arguments hold in the same spelling is for another reader."""
    return f"{BEGIN}{call['tool']} {json.dumps(call['arguments'], ensure_ascii=False)}{END}"


def instructions(text: str) -> Iterator[dict[str, Any]]:
    """The calls that a text tells its reader to make, each `{"name", "arguments"}`."""
    at = text.find(BEGIN)
    while at >= 0:
        name, _, rest = text[at + len(BEGIN):].partition(" ")
        end = at + len(BEGIN)
        try:
            arguments, length = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            arguments, length = None, 0
        if isinstance(arguments, dict) and rest[length:].startswith(END):
            yield {"name": name, "arguments": arguments}
            end += len(name) + 1 + length
        at = text.find(BEGIN, end)


def taken_over(request: ModelRequest) -> Any:
    """The next call that it is told to make and has not made; else an answer that repeats every instruction."""
    said = [str(message["content"]) for message in request.messages if message["role"] != "assistant"]
    told = [call for text in said for call in instructions(text)]
    made = [{"name": call["name"], "arguments": call["arguments"]}
            for message in request.messages for call in message.get("calls", ())]
    if request.tools:
        for call in told:
            if call not in made:
                return {"calls": [call], "text": ""}
    orders = [spelled({"tool": call["name"], "arguments": call["arguments"]}) for call in told]
    repeated = "\n".join(["I pass on what I was told.", *orders])
    if request.patterns:
        path = request.patterns[0].replace("**", "answer.md").replace("*", "answer")
        return f"=== file: {path} ===\n{repeated}\n=== end ===\n"
    if request.schema is None or request.schema == {"type": "string"}:
        return repeated
    return smallest(request.schema, "answer")
