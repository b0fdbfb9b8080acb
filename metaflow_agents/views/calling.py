"""Calls of models under way: which are silent, which wait for another try and why; and what tries failed in a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.schema.event import Event, Failed, Finished, Reserved, Resumed, Settled, Trouble
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.views.wording import amount, duration
from metaflow_agents.views.writing import Writing

_WORDS: dict[Trouble, str] = {
    "rate": "refused for the rate", "refused": "refused", "silence": "silent for too long", "failed": "failed"}
_SILENT = 10.0                      # seconds without a word, after which that is said


@dataclass(slots=True)
class _Call:
    """One call. `since`: when it was sent, or will be sent again (Unix time); `trouble`: why its last try failed."""

    since: float
    number: int
    trouble: Trouble | None = None
    waits: bool = False


class Calling:
    """What the calls of each activation do at the moment, from the events of a run and the pieces of answers (`writing`)."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._calls: dict[str, dict[str, _Call]] = {}               # slot → key → call
        self.failed: Counter[Trouble] = Counter()

    def apply(self, event: Event) -> None:
        """One more event of the run."""
        if isinstance(event, Reserved):
            slot = parse_activation(event.key).slot
            calls = self._calls.setdefault(slot, {})
            if not calls:
                self._writing.forget(slot)                          # the answer before, where nobody else is being answered
            before = calls.get(event.key)
            calls[event.key] = _Call(event.at, event.try_, before.trouble if before else None)
        elif isinstance(event, Settled):
            slot = parse_activation(event.key).slot
            self.failed.update([trouble_of(event.trouble, event.calls)] if event.error is not None else [])
            if event.again:
                self._writing.forget(slot)                          # what came of the try that failed is no part of the answer
                self._calls.setdefault(slot, {})[event.key] = _Call(
                    event.at + event.wait, event.try_, trouble_of(event.trouble, event.calls), waits=True)
            else:
                self._calls.get(slot, {}).pop(event.key, None)
        elif isinstance(event, Finished | Failed):
            slot = parse_activation(event.activation).slot
            self._writing.forget(slot)
            self._calls.pop(slot, None)
        elif isinstance(event, Resumed):                            # what a killed process asked is asked anew
            self._calls.clear()

    def told(self, slot: str, now: float) -> str:
        """`refused for the rate, try 2 in 12 s`, `try 2, silent for 1 min 05 s`; empty where there is nothing to say."""
        calls = list(self._calls.get(slot, {}).values())
        waiting = [call for call in calls if call.waits]
        if waiting:
            first = min(waiting, key=lambda call: call.since)
            more = f" ({amount(len(waiting), 'call')})" if len(waiting) > 1 else ""
            return f"{_WORDS[first.trouble or 'failed']}, try {first.number + 2} in {duration(max(first.since - now, 0.0))}{more}"
        if not calls:
            return ""
        number = max(call.number for call in calls)
        heard = max([call.since for call in calls] + [self._writing.heard(slot)])
        silent = [f"silent for {duration(now - heard)}"] if now - heard >= _SILENT else []
        return ", ".join([*([f"try {number + 1}"] if number else []), *silent])

    def told_of(self, firing: str, now: float) -> str:
        """The same of a firing: of one with items, how many calls wait for another try."""
        if firing in self._calls or not any(slot.startswith(f"{firing}[") for slot in self._calls):
            return ", ".join(part for part in (self._writing.length(firing), self.told(firing, now)) if part)
        items = [call for slot, calls in self._calls.items() if slot.startswith(f"{firing}[") for call in calls.values()]
        waiting = sum(call.waits for call in items)
        return f"{amount(waiting, 'call waits', 'calls wait')} for another try" if waiting else ""


def trouble_of(trouble: Trouble | None, calls: int) -> Trouble:
    """Why a try failed; journals of before said only whether it was taken up."""
    return trouble or ("failed" if calls else "refused")


def tries_told(failed: Mapping[Any, int], waited: float) -> str:
    """`2 refused for the rate, 1 silent for too long; waited 45 s`; empty where no try failed."""
    parts = [f"{failed[trouble]:,} {words}" for trouble, words in _WORDS.items() if failed.get(trouble)]
    return ", ".join(parts) + (f"; waited {duration(waited)}" if waited else "") if parts else ""
