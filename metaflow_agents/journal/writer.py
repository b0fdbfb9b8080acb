"""The one thread that writes a journal: all that waits goes into one synced transaction (group commit)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.store import Batch, Store
from metaflow_agents.schema.event import Event

_GROUP = 4096  # appends in one transaction at most, so that the first of many is not kept waiting by the last
_TURN = 32  # appends that are handed over at once: what one turn of the event loop appends, but no later than this many
_LINGER = 0.005  # seconds that what nobody waits for may wait itself, for something that somebody does wait for


@dataclass(frozen=True, slots=True, eq=False)
class WriteJob:
    """One append on its way: what is written, what is folded when that is durable, and who waits for it (None: nobody)."""

    batch: Batch
    events: Sequence[tuple[int, Event]]
    waiter: asyncio.Future[tuple[int, ...]] | None


Done = Callable[[Sequence[WriteJob], "Exception | None"], None]


class Writer:
    """Writes jobs in the order of `put`, and calls `done(jobs, error)` on the event loop for each group of them.

    After one failed group every later one is refused with the same error: nothing may lie behind a gap.
    """

    def __init__(self, store: Store, done: Done) -> None:
        self._store, self._done = store, done
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[WriteJob] | asyncio.Future[None]] = SimpleQueue()
        self._outbox: list[WriteJob] = []
        self._since = 0.0                       # when the first of them came
        self._lingering = self._leaving = False
        self._failure: Exception | None = None
        # A daemon: a program that dies without closing its journal must not hang at exit; what was acknowledged is on disk.
        self._thread = Thread(target=self._run, name=f"journal {store.path.stem}", daemon=True)
        self._thread.start()

    def put(self, job: WriteJob) -> None:
        """Queues a job; returns at once.

        What one turn of the event loop queues is handed over together, and with it what nobody waited for: waking the thread
        and syncing cost more than most jobs do, and what was settled shares its transaction with what follows from it at once.
        """
        if not self._outbox:
            self._since = self._loop.time()
        self._outbox.append(job)
        if len(self._outbox) >= _TURN:
            self._hand_over()
        elif job.waiter is not None:
            if not self._leaving:
                self._leaving = True
                self._loop.call_soon(self._leave)
        elif not self._lingering:
            self._lingering = True
            self._loop.call_later(_LINGER, self._linger)

    def _leave(self) -> None:
        self._leaving = False
        self._hand_over()

    def _linger(self) -> None:
        waited = self._loop.time() - self._since
        if self._outbox and waited < _LINGER:           # these came after those that it was set for, which are written
            self._loop.call_later(_LINGER - waited, self._linger)
            return
        self._lingering = False
        self._hand_over()

    def _hand_over(self) -> None:
        if self._outbox:
            self._queue.put(self._outbox)
            self._outbox = []

    async def stop(self) -> None:
        """Writes what is queued, closes the store and ends the thread; also when the caller is cancelled meanwhile."""
        stopped: asyncio.Future[None] = self._loop.create_future()
        self._hand_over()
        self._queue.put(stopped)
        try:
            await asyncio.shield(stopped)
        finally:
            self._thread.join()
            self._done = lambda *_: None    # it belongs to the journal, which holds this

    def _run(self) -> None:
        stopped: asyncio.Future[None] | None = None
        while stopped is None:
            jobs, stopped = self._take()
            if jobs:
                self._write(jobs)
                self._loop.call_soon_threadsafe(self._done, jobs, self._failure)
            del jobs  # not kept alive while waiting for the next
        self._store.close()
        self._loop.call_soon_threadsafe(_wake, stopped)

    def _take(self) -> tuple[list[WriteJob], asyncio.Future[None] | None]:
        jobs: list[WriteJob] = []
        taken = self._queue.get()
        while isinstance(taken, list):
            jobs += taken
            if len(jobs) >= _GROUP:
                return jobs, None
            try:
                taken = self._queue.get_nowait()
            except Empty:
                return jobs, None
        return jobs, taken

    def _write(self, jobs: Sequence[WriteJob]) -> None:
        if self._failure is not None:
            return
        try:
            self._store.write([job.batch for job in jobs if job.events or job.batch.blobs])
        except JournalError as error:
            self._failure = error
        except Exception as error:
            self._failure = JournalError(f"can't write the journal {self._store.path}: {type(error).__name__}: {error}")
            self._failure.__cause__ = error


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
