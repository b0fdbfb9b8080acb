"""A run's own time: seconds since it began, the pauses between its sittings and the waits for people left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RunClock:
    """A fold of all events of a run, as the JSON that the journal holds. It is what `RunState.elapsed` is."""

    def __init__(self) -> None:
        self.began = 0.0                # Unix time
        self.latest = 0.0               # Unix time of the last event
        self.elapsed = 0.0              # seconds

    def take(self, event: Mapping[str, Any]) -> float:
        """One more event. Returns when it happened: seconds of the run's own time."""
        at, kind = event.get("at", 0.0), event["kind"]
        if kind == "run_opened":
            self.began = at
        elif kind != "resumed" and at > self.latest:
            self.elapsed += max(at - self.latest - (event.get("rested", 0.0) if kind == "answered" else 0.0), 0.0)
        self.latest = at
        return self.elapsed

    def now(self, unix: float) -> float:
        """The run's own time at a Unix time, while it is under way."""
        return self.elapsed + max(unix - self.latest, 0.0)
