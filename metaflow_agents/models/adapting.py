"""How many requests a minute an endpoint really takes, learned from its refusals where these contradict its limit.

Additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
avoidance in computer networks", 1989), with one thing that a sender without a log does not know: how many requests of the
last minute were taken. A refusal cuts the rate down to that number, though by no more than a half and no less than a
twentieth at once; the refusals of requests that were under way by then belong to the same cut. It grows again by `_GROWTH`
of the limit a minute. It is never below `FLOOR`, nor above the limit.
"""

from __future__ import annotations

FLOOR = 1.0                         # requests a minute
_UNLIMITED = 600                    # requests a minute that are taken for an endpoint's limit where none was given
_LEAST, _MOST = 0.5, 0.95           # of the rate before a cut: what is left after it
_BELOW = 0.98                       # of what was taken, so that the next minute is not refused at its end
_GROWTH = 0.03                      # of the limit, for each minute without a refusal


class Adapted:
    """The rate of one endpoint. Moments are in seconds, rates in requests a minute."""

    def __init__(self) -> None:
        self._rate: float | None = None         # right after the last cut; None: never refused, or long ago
        self._cut = float("-inf")               # when
        self._before = self._limit = 0.0        # the rate that was cut, and the limit that it grows back to

    def rpm(self, now: float, limit: int | None) -> float | None:
        """The rate that holds now; None where nothing limits it."""
        if self._rate is not None:
            grown = self._rate + self._limit * _GROWTH * (now - self._cut) / 60
            if grown < self._limit:
                return grown if limit is None else min(grown, limit)
            self._rate = None
        return limit

    def refused(self, sent: float, now: float, limit: int | None, taken: int, asked: int) -> None:
        """A request that was sent at a moment was refused; of the `asked` requests of the last minute, `taken` were not."""
        if sent > self._cut:
            held = self.rpm(now, limit)
            if self._rate is None:
                self._limit = float(max(_UNLIMITED, asked) if limit is None else limit)
            self._before = self._limit if held is None else held
            self._cut = now
        self._rate = max(FLOOR, min(max(taken * _BELOW, self._before * _LEAST), self._before * _MOST))
