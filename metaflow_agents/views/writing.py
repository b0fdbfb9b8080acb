"""Answers as they come: of each activation under way, how much of its answer is there and how that ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.views.page import columns, safe
from metaflow_agents.views.wording import short

_TAIL = 160             # characters that are kept: a line of a wide terminal


@dataclass(slots=True)
class _Answer:
    key: str
    length: int = 0
    tail: str = ""
    heard: float = 0.0


class Writing:
    """Hears each piece of an answer; a model that gives its answer in one piece is not heard. `now` gives Unix time."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._answers: dict[str, _Answer] = {}

    def hear(self, key: str, text: str) -> None:
        """A piece of the answer to the call of this key. A further call of the same activation begins anew."""
        slot = parse_activation(key).slot
        answer = self._answers.get(slot)
        if answer is None or answer.key != key:
            answer = self._answers[slot] = _Answer(key)
        answer.heard = self._now()
        answer.length += len(text)
        answer.tail = (answer.tail + text)[-_TAIL:]

    def forget(self, slot: str) -> None:
        """The activation is over."""
        self._answers.pop(slot, None)

    def heard(self, slot: str) -> float:
        """When its last piece came, as Unix time; 0 where nothing has come."""
        answer = self._answers.get(slot)
        return 0.0 if answer is None else answer.heard

    def length(self, slot: str) -> str:
        """`1.2k characters`; empty where nothing has come."""
        answer = self._answers.get(slot)
        return "" if answer is None else f"{short(answer.length)} characters"

    def end(self, slot: str, width: int) -> str:
        """The last words, on one line of at most `width` columns."""
        answer = self._answers.get(slot)
        shown = "" if answer is None else " ".join(safe(answer.tail).split())
        while columns(shown) > width:
            shown = shown[max((columns(shown) - width) // 2, 1):]
        return shown
