"""A page of the time line as a page of the web UI takes it: rows by what is asked for, counts, marks, the critical path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metaflow_agents.views.event_log import spoken
from metaflow_agents.views.ui.activations import OVER, Bar, Row, Timeline
from metaflow_agents.views.ui.critical_path import Critical, critical
from metaflow_agents.views.ui.texts import first_line, line

MOST = 200
"""Rows of a page."""
_BARS = 400                         # of a row; what is more is told together
_MARKS = 500
_PATH = 2_000                       # keys of the critical path that are listed; each row says whether it is on it
STATES = ("running", "waiting", "done", "failed", "reused", "stopped", "repeated")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows: of a step and what is inside of it, in a state, with a text in key, role or error; empty: any."""

    offset: int = 0
    limit: int = MOST
    step: str = ""
    state: str = ""
    text: str = ""


class Lines:
    """The time line of one run as it is asked for again and again; what takes time is kept until the next event.

    `roles`: path of a step → who does it, in words. `ordered`: paths of the steps whose items come after each other.
    """

    def __init__(self, timeline: Timeline, roles: Mapping[str, str], ordered: Collection[str]) -> None:
        self.timeline, self.roles, self._ordered = timeline, roles, ordered
        self._critical: tuple[int, Critical, frozenset[str]] = (-1, Critical((), 0.0), frozenset())

    def page(self, wanted: Wanted, *, alive: bool) -> dict[str, Any]:
        """`alive`: whether somebody works on the run now; what is not over is `stopped` otherwise."""
        fitting = [(number, row) for number, row in enumerate(self.timeline.ordered()) if self._fits(row, wanted)]
        states = [(number, row, state_of(row, alive)) for number, row in fitting]
        counts = Counter(state for *_, state in states)
        chosen = [one for one in states if wanted.state in ("", one[2]) or (wanted.state == "repeated" and one[1].own.attempt)]
        shown = chosen[wanted.offset:wanted.offset + min(wanted.limit, MOST)]
        path, on_path = self._path()
        return {
            "total": len(chosen), "began": self.timeline.clock.began, "ended": round(self.timeline.now, 3),
            "seq": self.timeline.seq,
            "counts": {"all": len(states), **{state: counts[state] for state in STATES[:-1]},
                       "repeated": sum(1 for _, row, _ in states if row.own.attempt)},
            "rows": [self._told(number, row, state, on_path) for number, row, state in shown],
            "critical": list(path.keys[:_PATH]), "critical_total": len(path.keys), "saved": path.saved,
            "marks": {"failed": _some([number for number, _, state in states if state == "failed"]),
                      "repeated": _some([number for number, row, _ in states if row.own.attempt])},
            "rests": self.timeline.rests[-_MARKS:]}

    def touched(self, seq: int) -> list[str] | None:
        """Keys of the rows that changed behind an event; None where they are more than a page of them."""
        rows = self.timeline.changed_since(seq)
        return None if len(rows) > MOST else [row.key for row in rows]

    def _path(self) -> tuple[Critical, frozenset[str]]:
        if self._critical[0] != self.timeline.seq:
            found = critical(self.timeline, self._ordered)
            self._critical = (self.timeline.seq, found, frozenset(found.keys))
        return self._critical[1:]

    def _fits(self, row: Row, wanted: Wanted) -> bool:
        if wanted.step and row.path != wanted.step and not row.path.startswith(f"{wanted.step}/"):
            return False
        sought = wanted.text.lower()
        return not sought or any(sought in text.lower() for text in (row.key, spoken(row.key), row.role, row.error))

    def _told(self, number: int, row: Row, state: str, on_path: Collection[str]) -> dict[str, Any]:
        failed = {"error": first_line(row.error), "final": row.final} if row.state == "failed" else {}
        return {
            "n": number, "key": row.key, "step": row.path, "round": row.own.round,
            "item": None if row.own.item is None else line(row.own.item), "attempt": row.own.attempt,
            "role": row.role or self.roles.get(row.path, ""), "began": round(row.began, 3),
            "ended": None if row.ended is None else round(row.ended, 3), "state": state, "told": _words(row, state),
            "calls": row.calls, "tokens": row.tokens, "usd": row.cost / 10**12, "estimated": row.estimated,
            **({"inside": row.place} if row.place else {}), **({"critical": True} if row.key in on_path else {}), **failed,
            "bars": [_bar(bar, row) for bar in _merged(row.bars)]}


def state_of(row: Row, alive: bool) -> str:
    """How an activation stands: one that nobody works on has stopped, unless a person is asked."""
    if row.state in OVER:
        return row.state
    return "waiting" if row.asked else "running" if alive else "stopped"


def _words(row: Row, state: str) -> str:
    if state == "failed":
        return first_line(row.error)
    if state == "reused":
        return f"taken over from {line(spoken(row.source))}"
    return {"waiting": "a person is asked", "stopped": "not done: nobody works on it"}.get(state, "")


def _bar(bar: Bar, row: Row) -> dict[str, Any]:
    return {"kind": bar.kind, "key": f"{row.key}/{bar.key}" if bar.key else row.key, "began": round(bar.began, 3),
            "ended": None if bar.ended is None else round(bar.ended, 3), "state": bar.state, "told": line(bar.told)}


def _merged(bars: Sequence[Bar]) -> Iterator[Bar]:
    """The bars; of very many those that follow each other, of one kind, as one that says how many they are."""
    if len(bars) <= _BARS:
        yield from bars
        return
    kinds: dict[str, list[Bar]] = {}
    for bar in bars:
        kinds.setdefault(bar.kind, []).append(bar)
    each = max(_BARS // len(kinds), 1)
    for kind, found in kinds.items():
        size = -(-len(found) // each)
        for start in range(0, len(found), size):
            group = found[start:start + size]
            ends = [bar.ended for bar in group if bar.ended is not None]
            worst = next((state for state in ("failed", "lost", "running") if any(bar.state == state for bar in group)), "done")
            yield Bar(kind, group[0].key, min(bar.began for bar in group), max(ends) if len(ends) == len(group) else None, worst,
                      f"{len(group)} of {len(found):,}")


def _some(numbers: list[int]) -> list[int]:
    """At most so many as the scroll bar can show, from everywhere."""
    step = -(-len(numbers) // _MARKS)
    return numbers[::step] if step else []
