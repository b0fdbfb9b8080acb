"""The ways in which servers tell tool calls, right and wrong, whole and in a stream.

A call is `{"id", "name", "arguments"}`, its arguments an object. `Shape.message` gives the fields of a whole message,
`Shape.deltas` the deltas of a stream, `Shape.finish` the reason that ends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema

Call = dict[str, Any]
_PIECE = 5                          # characters of arguments in one delta


@dataclass(slots=True)
class Calling:
    """An answer that calls tools."""

    calls: list[Call] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """`entry(call, index)` is a call of a whole message, `pieces(calls)` are those of a stream, delta by delta."""

    entry: Callable[[Call, int], Any]
    pieces: Callable[[list[Call]], Iterable[list[Any]]]
    finish: str = "tool_calls"
    field_: str = "tool_calls"

    def message(self, calls: list[Call]) -> dict[str, Any]:
        entries = [self.entry(call, index) for index, call in enumerate(calls)]
        return {self.field_: entries[0] if self.field_ == "function_call" else entries}

    def deltas(self, calls: list[Call]) -> Iterator[dict[str, Any]]:
        for pieces in self.pieces(calls):
            yield {self.field_: pieces[0] if self.field_ == "function_call" else pieces}


def written(call: Call) -> str:
    return json.dumps(call["arguments"], ensure_ascii=False)


def entry(call: Call, index: int = 0) -> Call:
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": written(call)}}


def with_arguments(arguments: Callable[[Call], Any], finish: str = "tool_calls") -> Shape:
    """As the plain one, with other arguments, which come in one piece."""
    def made(call: Call, index: int = 0) -> Call:
        return {**entry(call), "function": {"name": call["name"], "arguments": arguments(call)}}
    return Shape(made, lambda calls: ([{"index": at, **made(call)}] for at, call in enumerate(calls)), finish)


def split(calls: list[Call]) -> list[list[Call]]:
    """Each call in pieces as OpenAI sends them: id and name first, then arguments."""
    return [[{"index": at, **entry(call), "function": {"name": call["name"], "arguments": ""}},
             *({"index": at, "function": {"arguments": written(call)[begin:begin + _PIECE]}}
               for begin in range(0, len(written(call)), _PIECE))] for at, call in enumerate(calls)]


def one_by_one(calls: list[Call]) -> Iterator[list[Call]]:
    yield from ([piece] for pieces in split(calls) for piece in pieces)


def changed(change: Callable[[Call, Call, int], Call]) -> Callable[[list[Call]], Iterator[list[Call]]]:
    """`change(piece, call, number)` of each piece of a call."""
    def made(calls: list[Call]) -> Iterator[list[Call]]:
        for call, pieces in zip(calls, split(calls), strict=True):
            yield from ([change(piece, call, number)] for number, piece in enumerate(pieces))
    return made


def interleaved(calls: list[Call]) -> Iterator[list[Call]]:
    """Pieces of all calls turn by turn, several in one delta."""
    parts = split(calls)
    for at in range(max(map(len, parts))):
        yield [pieces[at] for pieces in parts if at < len(pieces)]


def without(piece: Call, *names: str) -> Call:
    return {name: value for name, value in piece.items() if name not in names}


def repeated(piece: Call, call: Call, number: int) -> Call:
    return {**piece, "id": call["id"], "function": {**piece["function"], "name": call["name"]}}


def renamed(piece: Call, call: Call, number: int) -> Call:
    return {**piece, "id": f"{call['id']}-{number}"}


def at_once(calls: list[Call]) -> list[list[Call]]:
    return [[{"index": at, **entry(call)} for at, call in enumerate(calls)]]


def nameless(call: Call, index: int = 0) -> Call:
    return {**entry(call), "function": {"arguments": written(call)}}


def bare(call: Call, index: int = 0) -> Call:
    return {"name": call["name"], "arguments": written(call)}


SHAPES: dict[str, Shape] = {
    # no fault, however it is told
    "plain": Shape(entry, one_by_one),
    "finish_stop": Shape(entry, one_by_one, "stop"),
    "at_once": Shape(entry, at_once),
    "interleaved": Shape(entry, interleaved),
    "no_index": Shape(entry, changed(lambda piece, call, number: without(piece, "index"))),
    "no_index_at_once": Shape(entry, lambda calls: ([without({**entry(call)}, "index")] for call in calls)),
    "index_null": Shape(entry, changed(lambda piece, call, number: {**piece, "index": None})),
    "index_0": Shape(entry, lambda calls: ([{"index": 0, **entry(call)}] for call in calls)),
    "index_0_no_ids": Shape(lambda call, at: without(entry(call), "id"),
                            lambda calls: ([{"index": 0, **without(entry(call), "id")}] for call in calls)),
    "repeated": Shape(entry, changed(repeated)),
    "another_id_each_piece": Shape(entry, changed(renamed)),
    "no_ids": Shape(lambda call, at: without(entry(call), "id"), changed(lambda piece, call, number: without(piece, "id"))),
    "empty_ids": Shape(lambda call, at: {**entry(call), "id": ""}, changed(lambda piece, call, number: {**piece, "id": ""})),
    "same_ids": Shape(lambda call, at: {**entry(call), "id": "one"},
                      changed(lambda piece, call, number: {**piece, "id": "one"} if "id" in piece else piece)),
    "object_arguments": with_arguments(lambda call: call["arguments"]),
    "twice_encoded": with_arguments(lambda call: json.dumps(written(call))),
    "function_call": Shape(bare, lambda calls: ([piece["function"]] for piece in split(calls)[0]), "function_call",
                           "function_call"),
    # faults of the model or of the server
    "no_name": Shape(nameless, lambda calls: ([{"index": at, **nameless(call)}] for at, call in enumerate(calls))),
    "cut_arguments": with_arguments(lambda call: written(call)[:-4], "length"),
    "broken_arguments": with_arguments(lambda call: "{" + written(call)),
    "list_arguments": with_arguments(lambda call: "[1, 2]"),
    "no_number": with_arguments(lambda call: '{"n": NaN}'),
    "half_characters": with_arguments(lambda call: '{"n": "\\ud83d"}'),
    "too_deep": with_arguments(lambda call: "[" * 90_000),
    "empty_arguments": with_arguments(lambda call: ""),
    "null_arguments": with_arguments(lambda call: None),
    "no_function": Shape(lambda call, at: {"id": call["id"], "type": "function", "function": None},
                         lambda calls: ([{"index": at, "id": call["id"], "function": None}] for at, call in enumerate(calls))),
    "no_objects": Shape(lambda call, at: "call", lambda calls: (["call"] for _ in calls)),
}


def unfit(asked: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the tools of a request, and with the calls and results in its messages."""
    for at, tool in enumerate(asked.get("tools", ())):
        function = tool["function"]
        if tool["type"] != "function" or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
            yield f"Invalid 'tools[{at}].function.name': {function['name']!r} does not match the pattern"
        if function["parameters"].get("type") != "object":
            yield f"Invalid schema for function {function['name']!r}: schema must be of 'type: \"object\"'"
        jsonschema.Draft202012Validator.check_schema(function["parameters"])
    names = [tool["function"]["name"] for tool in asked.get("tools", ())]
    if len(set(names)) != len(names):
        yield "Tool names must be unique"
    open_: list[str] = []
    for message in asked["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_:
                yield f"no call has the id {message['tool_call_id']}"
            open_ = [id_ for id_ in open_ if id_ != message["tool_call_id"]]
            continue
        if open_:
            yield f"tool calls without a result: {open_}"
        for call in message.get("tool_calls", ()):
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield "arguments have to be an object"
            open_.append(call["id"])
