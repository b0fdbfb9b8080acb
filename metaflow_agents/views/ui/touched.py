"""Which activations have something new, so that a page asks for those that it shows and for no others."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

_ACTIVATIONS = re.compile(r"(?:[A-Za-z_]\w*@\d+(?:\[[^\]]*\])?~\d+(?:/(?=[A-Za-z_]\w*@)|(?=/|\Z)))+")
_HELD = 2000                        # activations, the latest
_TOLD = 200                         # at once


class Touched:
    """Takes events; tells which activations, by their keys (`write@1[b]~0/draft@1~0` in a sub-SOP), had one since an event."""

    def __init__(self, since: int = 0) -> None:
        self._known_from = since                                # events before are not looked at, or forgotten
        self._last: OrderedDict[str, int] = OrderedDict()

    def take(self, seq: int, event: Mapping[str, Any]) -> None:
        """One more event."""
        key = activation_of(event)
        if key:
            self._last[key] = seq
            self._last.move_to_end(key)
            if len(self._last) > _HELD:
                self._known_from = self._last.popitem(last=False)[1]

    def since(self, seq: int) -> list[str] | None:
        """Those with an event behind this one, the latest first; None where they are too many, or nobody knows."""
        if seq < self._known_from:
            return None
        found = []
        for key, last in reversed(self._last.items()):
            if last <= seq:
                break
            found.append(key)
            if len(found) > _TOLD:
                return None
        return found


def activation_of(event: Mapping[str, Any]) -> str:
    """The innermost activation that an event is about; empty for one of a firing, a message or the run."""
    path = ""
    while event["kind"] == "inner":
        path += f"{event['activation']}/"
        event = event["event"]
    if "activation" in event:
        return f"{path}{event['activation']}"
    found = _ACTIVATIONS.match(event.get("key", ""))
    return path + found[0] if found else path.removesuffix("/")
