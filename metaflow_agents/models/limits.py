"""What endpoints allow: requests and tokens a minute, and requests at once, for all runs of the process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """A place among the requests under way."""

    def settle(self, tokens: int) -> None:
        """What the call turned out to cost, in tokens."""

    def refused(self, after: float | None) -> None:
        """The endpoint refused it for its rate, and asked to wait `after` seconds (None: it did not say)."""


class Limiters:
    """The limits of each endpoint."""

    @asynccontextmanager
    async def admitted(self, endpoint: str | None, tokens: int) -> AsyncIterator[Admission]:
        """Wait until a request of at most `tokens` tokens may go out; leave once it came back."""
        yield Admission()
