"""The time of an attempt, which stands still while all that it does is wait until a call of it may be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar


class Stopwatch:
    """Of one attempt; those of a sub-SOP's attempts are parts of the one of the attempt that the sub-SOP is."""

    def __init__(self, limit: asyncio.Timeout | None, outer: Stopwatch | None) -> None:
        self._limit, self._outer = limit, outer
        self._waiting = self._under_way = 0     # calls and inner attempts
        self._left: float | None = None         # seconds, while it stands still

    @property
    def still(self) -> bool:
        """Whether something waits to be sent, and nothing is under way."""
        return self._waiting > 0 and self._under_way == 0

    def count(self, *, waiting: int = 0, under_way: int = 0) -> None:
        """Begins or ends so many waits, and so much that is under way."""
        before = self.still
        self._waiting += waiting
        self._under_way += under_way
        if self.still == before:
            return
        step = 1 if self.still else -1
        if self._outer is not None:
            self._outer.count(waiting=step, under_way=-step)
        self._reschedule()

    def _reschedule(self) -> None:
        if self._limit is None or self._limit.expired():
            return
        now, due = asyncio.get_running_loop().time(), self._limit.when()
        if self.still and due is not None:
            self._left = due - now
            self._limit.reschedule(None)
        elif self._left is not None:
            self._limit.reschedule(now + self._left)
            self._left = None


_RUNNING: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@asynccontextmanager
async def timed(seconds: float | None) -> AsyncIterator[asyncio.Timeout | None]:
    """Around an attempt: at most `seconds` in which it did not merely wait. Raises TimeoutError, and then it is `expired()`."""
    outer = _RUNNING.get()
    limit = None if seconds is None else asyncio.timeout(seconds)
    watch = Stopwatch(limit, outer)
    before = _RUNNING.set(watch)
    if outer is not None:
        outer.count(under_way=1)
    try:
        if limit is None:
            yield None
        else:
            async with limit:
                yield limit
    finally:
        watch._limit = None
        _RUNNING.reset(before)
        if outer is not None:
            outer.count(waiting=-1) if watch.still else outer.count(under_way=-1)


@contextmanager
def waits() -> Iterator[None]:
    """Around the wait of a call that was not sent yet."""
    yield from _counted(waiting=1)


@contextmanager
def under_way() -> Iterator[None]:
    """Around a call that is under way."""
    yield from _counted(under_way=1)


def _counted(*, waiting: int = 0, under_way: int = 0) -> Iterator[None]:
    watch = _RUNNING.get()
    if watch is None:
        yield
        return
    watch.count(waiting=waiting, under_way=under_way)
    try:
        yield
    finally:
        watch.count(waiting=-waiting, under_way=-under_way)
