"""Warm workers, shared by all runs of this process: started when the first is needed, gone with the process.

Nothing here belongs to an event loop. A forked child has none of its parent's workers.
"""

from __future__ import annotations

import atexit
import os
from threading import Lock
from typing import Any
from weakref import WeakSet

from metaflow_agents.threads.blocking import Threads
from metaflow_agents.workers.jobs import JOBS, WorkerJob
from metaflow_agents.workers.process import Worker

PARALLEL = max(2, min(8, os.cpu_count() or 2))
"""Workers that work at once; more requests wait for their turn, and their time does not run."""
_KEPT = 2                           # idle ones of a job


class Pool:
    """Workers by job. `ask` may be called in any thread and in any event loop."""

    def __init__(self, parallel: int = PARALLEL) -> None:
        self._threads = Threads(parallel, "worker")
        self._idle: dict[str, list[Worker]] = {}
        self._live: WeakSet[Worker] = WeakSet()
        self._lock = Lock()
        self._watched = False

    async def ask(self, job: WorkerJob, data: bytes, **arguments: Any) -> Any:
        """What the job's function gives for some bytes. Cancelling the await kills the worker.

        Raises ForeignRefused where the input takes more than the job allows or breaks its parser, RunError where none starts.
        """
        request = _Request(self, job, data, arguments)
        return await self._threads.run(request.run, request.stop)

    def take(self, job: WorkerJob) -> Worker:
        """An idle worker, or a new one."""
        with self._lock:
            while idle := self._idle.get(job.name):
                worker = idle.pop()
                if worker.alive:
                    return worker
                worker.close()
            if not self._watched:
                self._watched = True
                atexit.register(self.close)
                os.register_at_fork(after_in_child=self._forget)
        worker = Worker(job)
        with self._lock:
            self._live.add(worker)
        return worker

    def give_back(self, worker: Worker) -> None:
        """Keep a worker for the next request, or end it."""
        with self._lock:
            idle = self._idle.setdefault(worker.job.name, [])
            if len(idle) < _KEPT and worker.alive:
                idle.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """End all idle workers. The next request starts new ones."""
        with self._lock:
            workers = [worker for idle in self._idle.values() for worker in idle]
            self._idle.clear()
        for worker in workers:
            worker.close()

    @property
    def idle(self) -> int:
        """How many workers wait for work."""
        with self._lock:
            return sum(map(len, self._idle.values()))

    def _forget(self) -> None:
        self._lock = Lock()                 # another thread may have held it in the parent
        for worker in self._live:
            worker.forget()
        self._live.clear()
        self._idle.clear()


class _Request:
    """One request: `run` blocks, `stop` may come from another thread."""

    def __init__(self, pool: Pool, job: WorkerJob, data: bytes, arguments: dict[str, Any]) -> None:
        self._pool, self._job, self._data, self._arguments = pool, job, data, arguments
        self._worker: Worker | None = None
        self._stopped = False
        self._lock = Lock()                 # a worker that is not ours any more is not stopped

    def run(self) -> Any:
        worker = self._pool.take(self._job)
        with self._lock:
            self._worker = worker
            if self._stopped:               # cancelled while it started
                worker.stop()
        try:
            return worker.ask(self._data, self._arguments)
        finally:
            with self._lock:
                self._worker = None
            self._pool.give_back(worker)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.stop()


POOL = Pool()


async def parsed(name: str, data: bytes, **arguments: Any) -> Any:
    """What the job `name` of the table gives for bytes that somebody else wrote, worked out in a worker.

    Raises ForeignRefused, whose message goes on from the name of what was read: `took more than 10 s of processor time`.
    """
    return await POOL.ask(JOBS[name], data, **arguments)
