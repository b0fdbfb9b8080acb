"""Activations that wait for answers: parked, and entered again when a question of theirs is closed.

A doer that can't go on before somebody has answered raises `Waiting` with the keys of its questions. Its activation is
left where it is, fired and uncommitted, while all that does not depend on it goes on. Parked time counts against no cap.
One that has met a cap (`BudgetExceeded`) is left just so, to the end of the run: what others have sent is still answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from metaflow_agents.errors import BudgetExceeded, Waiting


class PendingAnswers(Protocol):
    """Where answers come from. The engine knows of no people: it knows keys, and that a question is closed or not yet."""

    def open(self, key: str) -> bool:
        """Whether what waits under this key has to wait on."""
        ...

    async def attend(self, told: Callable[[], None]) -> None:
        """Takes in what arrives while the run goes on, and calls `told` after each; until it is cancelled."""
        ...

    async def more(self) -> bool:
        """Waits until something is closed, since nothing else is left to do: False where nobody is there who could."""
        ...

    def waiting(self) -> str:
        """What is waited for, and how to go on: the reason with which the run rests."""
        ...


class Nobody:
    """Nothing is ever answered."""

    def open(self, key: str) -> bool:
        """It is."""
        return True

    async def attend(self, told: Callable[[], None]) -> None:
        """Returns at once."""

    async def more(self) -> bool:
        """Nobody is there."""
        return False

    def waiting(self) -> str:
        """In general."""
        return "answers are waited for"


class Standstill:
    """A time in which everything rests, and `clock`, the run's, stands still."""

    def __init__(self) -> None:
        self.clock: asyncio.Timeout | None = None
        self._since: float | None = None
        self._due: float | None = None

    def seconds(self) -> float:
        """For how many seconds everything has been resting; 0 while something runs."""
        return 0.0 if self._since is None else asyncio.get_running_loop().time() - self._since

    def begin(self) -> None:
        """Everything rests from here on."""
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
            self._due = None if self.clock is None else self.clock.when()
            if self.clock is not None and not self.clock.expired():
                self.clock.reschedule(None)

    def end(self) -> None:
        """Something runs again."""
        if self._since is None:
            return
        if self.clock is not None and self._due is not None and not self.clock.expired():
            self.clock.reschedule(self._due + self.seconds())
        self._since = self._due = None


class Parking:
    """Who is parked in this process, and which firings rest because all that is left of them is."""

    def __init__(self, answers: PendingAnswers | None = None) -> None:
        self.answers: PendingAnswers = answers or Nobody()
        self.resting: set[str] = set()
        self.capped: list[BudgetExceeded] = []                 # the caps that activations have met
        self.heard: Callable[[], None] = lambda: None          # told when a firing comes to rest: the scheduler's
        self.rests = Standstill()
        self._parked: dict[asyncio.Future[None], tuple[str, ...]] = {}

    @property
    def any(self) -> bool:
        """Whether somebody is parked who waits for an answer."""
        return any(self._parked.values())

    async def closed(self, firing: str, why: Waiting | BudgetExceeded) -> None:
        """Returns when one of the questions that are waited for is closed; at once where one is, in the same turn of the loop.
        At a cap it never does: whoever waits there is cancelled when the run ends.
        """
        keys = why.keys if isinstance(why, Waiting) else ()
        if isinstance(why, BudgetExceeded):
            self.capped.append(why)
        if not all(map(self.answers.open, keys)):              # it came while others of the activation still ran
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked[waiter] = keys
        try:
            await waiter
        finally:
            del self._parked[waiter]
            self.resting.discard(firing)                       # until it has looked what it can do now
            self.rests.end()

    def look(self) -> None:
        """Wakes everybody of whose questions one is closed now."""
        for waiter, keys in self._parked.items():
            if not waiter.done() and not all(map(self.answers.open, keys)):
                waiter.set_result(None)

    def rest_all(self, firings: Collection[str]) -> bool:
        """Whether these all rest, and nobody has been woken who did not get his turn yet."""
        return self.resting.issuperset(firings) and not any(waiter.done() for waiter in self._parked)

    @contextmanager
    def rest(self, firing: str) -> Iterator[None]:
        """Around the wait of a firing for whose items nothing is left to do but to wait for answers."""
        self.resting.add(firing)
        self.heard()
        try:
            yield
        finally:
            self.resting.discard(firing)
            self.rests.end()


class Lot:
    """Looks after the parked while a scheduler runs: has answers taken in, and tells when nothing is left but to wait.

    `all_rest` says whether everything that runs is parked, `rest` is called where it is and nobody is there to answer.
    """

    def __init__(self, parking: Parking, group: asyncio.TaskGroup, all_rest: Callable[[], bool],
                 rest: Callable[[], None]) -> None:
        self._parking, self._group, self._all_rest, self._rest = parking, group, all_rest, rest
        self._attending: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        parking.heard = self.look

    def look(self) -> None:
        """To be called after each commit, and by whoever comes to rest: cheap where nobody is parked."""
        if not self._parking.any and not self._parking.resting:
            return
        if self._all_rest():
            self._parking.rests.begin()
        if self._attending is None:
            self._attending = self._group.create_task(self._parking.answers.attend(self._parking.look), name="answers")
        if self._looking is None or self._looking.done():
            self._looking = self._group.create_task(self._wait(), name="parked")

    async def _wait(self) -> None:
        while self._all_rest():
            self._parking.rests.begin()
            more = await self._parking.answers.more()
            self._parking.look()
            if not more and self._all_rest():
                self._rest()
                return

    def leave(self) -> None:
        """Nothing is looked after any more."""
        self._parking.heard = lambda: None
        for task in (self._attending, self._looking):
            if task is not None:
                task.cancel()
