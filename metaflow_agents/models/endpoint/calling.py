"""Tool calls as endpoints send them: whole, or in the pieces of a stream; read leniently.

Sources: the OpenAI reference of chat completions (`message.tool_calls`, `delta.tool_calls`), and what servers do instead. Gemini
numbers each call of a stream 0 or leaves its `index` out (googleapis/python-genai and others), some servers repeat id and name in
each piece, or tell another id in each, some send arguments as an object, and the older `function_call` is still about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.models.calls import arguments_of


@dataclass(slots=True)
class Called:
    """One call as it came. `arguments`: a text, or whatever JSON stood there; None: nothing did. `extra` is to be sent back."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def take(self, told: Mapping[str, Any]) -> None:
        """One more piece."""
        function = _function(told)
        self.id = self.id or _text(told.get("id"))
        name = _text(function.get("name"))
        if name != self.name:                       # said again, it is not said twice
            self.name += name
        came = function.get("arguments", function.get("parameters"))
        if isinstance(self.arguments, str) and isinstance(came, str):
            self.arguments += came
        elif came is not None and not (came == "" and self.arguments is not None):
            self.arguments = came
        extra = told.get("extra_content")
        self.extra = extra if isinstance(extra, Mapping) and extra else self.extra

    @property
    def whole(self) -> bool:
        """Whether its arguments are an object already, so that what follows belongs to another call."""
        return bool(self.arguments) and isinstance(arguments_of(self.arguments), Mapping)


def called_in(message: Mapping[str, Any]) -> tuple[Called, ...]:
    """The calls of a whole message."""
    found = []
    for told in _told(message):
        found.append(Called())
        found[-1].take(told)
    return tuple(found)


class Pieces:
    """Calls that come in pieces."""

    def __init__(self) -> None:
        self._calls: list[Called] = []
        self._at: dict[int, Called] = {}            # by the number that the endpoint gives

    def add(self, delta: Mapping[str, Any]) -> None:
        """The pieces of calls in one delta of a stream."""
        for told in _told(delta):
            self._of(told).take(told)

    def whole(self) -> tuple[Called, ...]:
        """All calls, in the order in which they began."""
        return tuple(self._calls)

    def _of(self, told: Mapping[str, Any]) -> Called:
        """The call that a piece belongs to."""
        id_, name = _text(told.get("id")), _text(_function(told).get("name"))
        number = told.get("index")
        if isinstance(number, int):
            found = self._at.get(number)
        else:
            found = next((call for call in self._calls if id_ and call.id == id_), None)
            if found is None and self._calls and not (id_ and name):
                found = self._calls[-1]
        if found is None or _another(found, id_, name):
            found = Called()
            self._calls.append(found)
        if isinstance(number, int):
            self._at[number] = found
        return found


def _another(call: Called, id_: str, name: str) -> bool:
    """Whether a piece with this id and name begins a call of its own, though it has the number of one that began before."""
    if not name or not call.name:
        return False
    return call.id != id_ if id_ and call.id else call.whole


def _told(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls that a message or a delta tells, in either spelling."""
    told = message.get("tool_calls") or message.get("function_call")
    listed = told if isinstance(told, list) else [] if told is None else [told]
    return [each for each in listed if isinstance(each, Mapping)]


def _function(told: Mapping[str, Any]) -> Mapping[str, Any]:
    function = told.get("function", told)
    return function if isinstance(function, Mapping) else {}


def _text(told: Any) -> str:
    return told if isinstance(told, str) else ""
