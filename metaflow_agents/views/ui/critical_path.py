"""Which activations decided how long a run took, and what it would have taken had nothing waited for its turn.

Backwards from the activation that ended last: before it came the attempt that failed, or the item that had its place among
`parallel`, or the firing whose commit released it. Forwards, for what would have been saved: every firing begins when what it
read was committed, with the delay that it really had, and all of its items at once, each for as long as it really took. Items
that come `after` others are not told apart from those that waited for a place, so steps with `after` are left as they were.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from typing import NamedTuple

from metaflow_agents.views.ui.activations import Firing, Row, Timeline

_INSTANT = 1e-6                     # seconds
_SHORT = 0.001


class Critical(NamedTuple):
    """Keys of the activations on the path, in time, those inside of sub-SOPs behind what they are inside of; and the seconds
    that would have been saved, at most, by more at once.
    """

    keys: tuple[str, ...]
    saved: float


def critical(timeline: Timeline, ordered: Container[str] = ()) -> Critical:
    """`ordered`: paths of the steps whose items come after each other."""
    scopes: dict[str, list[Firing]] = {}
    for firing in timeline.firings.values():
        scopes.setdefault(firing.place, []).append(firing)
    walk = _Walk(timeline, scopes, ordered)
    return Critical(tuple(walk.path("")), round(walk.saved(), 3))


class _Walk:
    """One look at a time line."""

    def __init__(self, timeline: Timeline, scopes: dict[str, list[Firing]], ordered: Container[str]) -> None:
        self._timeline, self._scopes, self._ordered = timeline, scopes, ordered
        self._ended: dict[str, tuple[list[float], list[Row]]] = {}        # firing → its items by when they ended

    def path(self, place: str) -> list[str]:
        """Of one scope: the run, or what one activation is inside. What took no time is left out."""
        row = max((row for firing in self._scopes.get(place, ()) for row in firing.rows), key=self._until, default=None)
        found: list[str] = []                                       # the last one first
        seen: set[str] = set()
        while row is not None and row.key not in seen:
            seen.add(row.key)
            if row.state != "reused" and self._until(row) - row.began >= _SHORT:
                found += [*reversed(self.path(row.key)), row.key]
            row = self._before(row)
        return found[::-1]

    def _until(self, row: Row) -> float:
        return row.until(self._timeline.now)

    def _before(self, row: Row) -> Row | None:
        if row.own.attempt:
            earlier = self._timeline.rows.get(f"{row.key.rpartition('~')[0]}~{row.own.attempt - 1}")
            if earlier is not None:
                return earlier
        return self._queued_behind(row) or self._released(row.firing)

    def _queued_behind(self, row: Row) -> Row | None:
        """The item of the same firing whose end let this one begin; None where nothing of it had ended."""
        if row.state == "reused" or row.firing.items is None or row.began <= row.firing.fired + _INSTANT:
            return None
        ends, rows = self._ends(row.firing)
        number = bisect_right(ends, row.began + _INSTANT)
        while number and rows[number - 1] is row:
            number -= 1
        return rows[number - 1] if number else None

    def _ends(self, firing: Firing) -> tuple[list[float], list[Row]]:
        found = self._ended.get(firing.key)
        if found is None:
            rows = sorted((row for row in firing.rows if row.ended is not None), key=self._until)
            found = self._ended[firing.key] = [self._until(row) for row in rows], rows
        return found

    def _released(self, firing: Firing) -> Row | None:
        """The activation whose end made the last of what a firing read."""
        while True:
            before = [found for key in firing.after if (found := self._timeline.firings.get(key)) is not None
                      and found.committed is not None and found.committed <= firing.fired + _INSTANT]
            firing = max(before, key=lambda one: one.committed or 0.0, default=firing)
            if not before:
                return None
            if firing.rows:
                return max(firing.rows, key=self._until)

    def saved(self) -> float:
        """How much earlier the run would have ended."""
        ends: dict[str, float] = {}                             # firing → when it would have been committed
        for firing in self._scopes.get("", ()):
            ends[firing.key] = self._ideal(firing, ends)
        last = max((self._until(row) for one in self._scopes.get("", ()) for row in one.rows), default=0.0)
        return max(last - max(ends.values(), default=0.0), 0.0)

    def _ideal(self, firing: Firing, ends: dict[str, float]) -> float:
        read = [key for key in firing.after if key in ends]
        released = max((self._timeline.firings[key].committed or firing.fired for key in read), default=0.0)
        ready = max((ends[key] for key in read), default=0.0) + max(firing.fired - released, 0.0)
        took: dict[str, float] = {}
        for row in firing.rows:
            if row.own.attempt == 0:
                waited = self._queued_behind(row) is not None and firing.path not in self._ordered
                took[row.own.slot] = ready + (0.0 if waited else max(row.began - firing.fired, 0.0))
            took[row.own.slot] = took.get(row.own.slot, ready) + self._until(row) - row.began
        last = max((self._until(row) for row in firing.rows), default=firing.fired)
        behind = 0.0 if firing.committed is None else max(firing.committed - last, 0.0)
        return max(took.values(), default=ready) + behind
