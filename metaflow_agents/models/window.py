"""What went out to one endpoint in the last minute: a sliding log of requests and tokens, and an even pace between them.

The log holds each request from when it was let go until `WINDOW` later, at its worst case of tokens until it is settled
and at what it cost from then on. Whatever 60 seconds an endpoint looks at, at whatever moment they begin, what arrives in
them is within the limits; so it is for endpoints that count by the calendar minute or let a bucket fill evenly.

The pace keeps the first second of a minute from taking all of it: up to `_BURST` of a minute's requests go at once, the
others as evenly as the minute allows. Nothing here waits or knows a clock: moments are given, in seconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW = 61.0
"""Seconds: the 60 of a limit, and one more, as the way to the endpoint may take longer for one request than for the next."""
_BURST = 1 / 6                      # of a minute's requests
_SMALL = 10                         # requests that always may go at once, where the limit has as many
_NEARLY = 1e-6                      # of a request: what is lost to rounding in sums of fractions


@dataclass(eq=False, slots=True)
class WindowEntry:
    """One request that was let go. `requests` is 0 for one that turned out not to be sent."""

    at: float
    tokens: int
    requests: int = 1
    refused: bool = False
    past: bool = False


class RateWindow:
    """The log and the pace of one endpoint."""

    def __init__(self) -> None:
        self._log: deque[WindowEntry] = deque()
        self.requests = self.tokens = self.refused = 0          # of the entries in the log
        self._credit, self._credited = float("inf"), float("-inf")

    def room(self, now: float, tokens: int, rpm: float | None, tpm: int | None) -> float:
        """The moment to ask again whether a request of so many tokens may go; `now` where it may go at once."""
        self._forget(now)
        full = (rpm is not None and self.requests + 1 > max(rpm, 1.0)) or (tpm is not None and self.tokens + tokens > tpm)
        if full and self._log:
            return self._log[0].at + WINDOW
        if rpm is not None:
            self._refill(now, rpm)
            if self._credit < 1 - _NEARLY:
                return max(now, self._credited) + (1 - self._credit) * WINDOW / rpm
        return now

    def take(self, now: float, tokens: int) -> WindowEntry:
        """A request goes now."""
        entry = WindowEntry(now, tokens)
        self._log.append(entry)
        self.requests += 1
        self.tokens += tokens
        self._credit -= 1
        return entry

    def settle(self, entry: WindowEntry, tokens: int) -> None:
        """What a request cost, in place of its worst case."""
        if not entry.past:
            self.tokens += tokens - entry.tokens
        entry.tokens = tokens

    def refuse(self, entry: WindowEntry) -> None:
        """The endpoint refused a request. It stays in the log: some count what they refuse."""
        if not entry.past and not entry.refused:
            self.refused += 1
        entry.refused = True

    def give_back(self, entry: WindowEntry) -> None:
        """A request was let go and never sent."""
        self.settle(entry, 0)
        if not entry.past:
            self.requests -= entry.requests
        entry.requests = 0
        self._credit += 1

    def rest(self, until: float) -> None:
        """Nothing goes until a moment; from then on evenly, not all that waited at once."""
        self._credit, self._credited = min(self._credit, 1.0), max(until, self._credited)

    def _refill(self, now: float, rpm: float) -> None:
        most = max(rpm * _BURST, min(rpm, _SMALL), 1.0)
        if now > self._credited:
            self._credit = min(most, self._credit + (now - self._credited) * rpm / WINDOW)
            self._credited = now

    def _forget(self, now: float) -> None:
        while self._log and self._log[0].at + WINDOW <= now:
            entry = self._log.popleft()
            entry.past = True
            self.requests -= entry.requests
            self.tokens -= entry.tokens
            self.refused -= entry.refused
