"""Tool calls as models give them, made into `ToolCall`s: arguments read leniently, an id for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from metaflow_agents.models.port import ToolCall
from metaflow_agents.texts.strict_json import NotJSON, check, read

_ENCODINGS = 2                      # some servers encode the arguments twice


def arguments_of(came: Any, *, cut: bool = False) -> Mapping[str, Any] | str:
    """The arguments of a call: a JSON object, or the text of what came instead. Nothing at all is none, unless it was `cut`."""
    if came is None or (isinstance(came, str) and not came.strip()):
        return "" if cut else {}
    found = came
    for _ in range(_ENCODINGS):
        if isinstance(found, str):
            try:
                found = read(found.strip(), lines=True)
            except NotJSON:
                break
    if isinstance(found, Mapping) and _storable(found):
        return dict(found)
    return as_text(came if isinstance(came, str) else _written(came))


def _storable(value: Any) -> bool:
    """Whether the journal can hold it: no half characters, no endless numbers, not nested without end."""
    try:
        check(value)
    except NotJSON:
        return False
    return True


def _written(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return str(type(value).__name__)


def as_text(came: str) -> str:
    """A text that can be stored: half characters put together or replaced."""
    return came if came.isascii() else came.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def numbered(calls: Iterable[ToolCall], messages: Iterable[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """The calls, each with an id that no other of the conversation has: its own where that is so, else `call_0`, `call_1`, …"""
    taken = {call["id"] for message in messages for call in message.get("calls", ())}
    found: list[ToolCall] = []
    number = len(taken)
    for call in calls:
        given = as_text(call.id)
        while not given or given in taken:
            given, number = f"call_{number}", number + 1
        taken.add(given)
        found.append(replace(call, id=given))
    return tuple(found)
