"""Where nothing is drawn over: a line now and then that says what is under way, so that a log shows a run that waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metaflow_agents.journal.state import Firing
from metaflow_agents.schema.keys import firing_key
from metaflow_agents.views.page import safe
from metaflow_agents.views.wording import amount, clock, duration

EVERY = 60.0                        # seconds without a line
_NAMED = 6                          # firings that are named


class Pulse:
    """Says what is under way once `EVERY` seconds have passed in which no line was printed.

    `seconds` is a clock that only goes forward, `at` the time of day as a Unix time; `active` and `elapsed` (of the run's own
    time, in seconds) tell of the run, `calls` of what the calls of a firing do.
    """

    def __init__(self, active: Callable[[], Mapping[str, Firing]], elapsed: Callable[[], float],
                 seconds: Callable[[], float], at: Callable[[], float], calls: Callable[[str], str] = lambda _: "") -> None:
        self._active, self._elapsed, self._seconds, self._at, self._calls = active, elapsed, seconds, at, calls
        self._last = seconds()

    def heard(self) -> None:
        """A line was printed."""
        self._last = self._seconds()

    def line(self) -> str | None:
        """The line that is due; None where none is, or nothing is under way."""
        if self._seconds() - self._last < EVERY:
            return None
        self.heard()
        told = under_way(self._active(), self._elapsed(), self._calls)
        return f"{clock(self._at())}  under way: {told}" if told else None


def under_way(active: Mapping[str, Firing], elapsed: float, calls: Callable[[str], str] = lambda _: "") -> str:
    """`write@1 for 2 min 05 s, 3 of 8 items; judge@2 for 61 s, waits for a person`; empty where nothing is."""
    parts = [_told(one, elapsed, calls) for one in list(active.values())[:_NAMED]]
    more = [f"{len(active) - _NAMED:,} more"] if len(active) > _NAMED else []
    return "; ".join([*parts, *more])


def _told(one: Firing, elapsed: float, calls: Callable[[str], str]) -> str:
    items = "" if one.items is None else f", {len(one.done):,} of {amount(len(one.items), 'item')}"
    asked = ", waits for a person" if one.questions else ""
    call = calls(firing_key(one.step, one.round))
    asked += f", {call}" if call else ""
    return safe(f"{firing_key(one.step, one.round)} for {duration(max(elapsed - one.began, 0.0))}{items}{asked}")
