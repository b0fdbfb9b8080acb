"""What endpoints allow: requests and tokens a minute, and requests at once, for all runs of the process.

`Limiters` are those of one run. They speak for its `limits:`; the queues themselves are the process's (`traffic.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from metaflow_agents.models.rate_limiter import PROCESS, Lane, Traffic
from metaflow_agents.models.window import WindowEntry
from metaflow_agents.schema.endpoint import EndpointLimits


@dataclass(frozen=True, slots=True)
class Admission:
    """A place among the requests under way; without a lane, of one that no endpoint limits."""

    lane: Lane | None = None
    entry: WindowEntry | None = None

    def settle(self, tokens: int) -> None:
        """What the call turned out to cost, in tokens."""
        if self.lane is not None and self.entry is not None:
            self.lane.settle(self.entry, tokens)

    def refused(self, after: float | None) -> None:
        """The endpoint refused it for its rate, and asked to wait `after` seconds (None: it did not say)."""
        if self.lane is not None and self.entry is not None:
            self.lane.refused(self.entry, after)


_UNLIMITED = Admission()


class Limiters:
    """The limits that one run brings for every endpoint that it uses.

    Where several runs of the process use an endpoint, the tightest of their limits hold for all; `close` takes this run's
    away again. `waiting`: how many calls of this run wait at the moment.
    """

    def __init__(self, limits: EndpointLimits | None = None, *, traffic: Traffic = PROCESS) -> None:
        self._limits, self._traffic = limits, traffic
        self._lanes: dict[str, Lane] = {}
        self.waiting = 0

    @asynccontextmanager
    async def admitted(self, endpoint: str | None, tokens: int) -> AsyncIterator[Admission]:
        """Wait until a request of at most `tokens` tokens may go out; leave once it came back.

        Raises UsageError for one that is larger than what the endpoint takes in a minute.
        """
        if endpoint is None:
            yield _UNLIMITED
            return
        lane = self._lanes.get(endpoint) or self._joined(endpoint)
        self.waiting += 1
        try:
            entry = await lane.enter(tokens)
        finally:
            self.waiting -= 1
        try:
            yield Admission(lane, entry)
        finally:
            lane.leave()

    def close(self) -> None:
        """The run is over."""
        for lane in self._lanes.values():
            lane.release(self)
        self._lanes.clear()

    def _joined(self, endpoint: str) -> Lane:
        lane = self._lanes[endpoint] = self._traffic.lane(endpoint)
        if self._limits is not None:
            lane.hold(self, self._limits)
        return lane
