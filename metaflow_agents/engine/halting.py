"""A failure that stops the run lets the calls that were sent be answered first: a resume finds them, and pays none again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Halting:
    """What is under way of a run when an activation fails for good. `outer`: of a sub-SOP, that of the run that it is a part of.

    Ctrl-C, a `timeout` and the cap on time end the wait as they end anything else: nothing is shielded.
    """

    def __init__(self, outer: Halting | None = None) -> None:
        self._outer, self._failed, self._under_way = outer, False, 0
        self._idle = asyncio.Event()

    @property
    def halted(self) -> bool:
        """Whether the run stops as soon as all that was sent is answered."""
        return self._failed or (self._outer is not None and self._outer.halted)

    @asynccontextmanager
    async def sent(self, *, paid: bool) -> AsyncIterator[None]:
        """Around a call and the journalling of its answer. One that is `paid` is waited for. Where the run stops none is sent any
        more, and who was answered goes no further, lest something be begun that is cut off: both wait until they are cancelled.
        """
        await self._stand_still()
        self._count(1 if paid else 0)
        try:
            yield
        finally:
            self._count(-1 if paid else 0)
        await self._stand_still()

    async def settle(self) -> None:
        """Returns when nothing that is paid for is under way; from now on nothing is sent."""
        self._failed = True
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()

    async def _stand_still(self) -> None:
        if self.halted:
            await asyncio.get_running_loop().create_future()

    def _count(self, more: int) -> None:
        self._under_way += more
        if not self._under_way:
            self._idle.set()
        if self._outer is not None:
            self._outer._count(more)
