"""Workers that fork, and the jobs that they share: a climb asks for the next moment until the run has no such moment any more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Job = dict[str, Any]
Result = dict[str, Any]
_MOST = 1000


@dataclass
class Climb:
    """Jobs for the moments 1, 1 + step, …; over once two of them (`misses`) found the run at its end before its moment came.

    Each has two tries: on a busy machine more events come together in one write, and a run has fewer writes.
    """

    job: Callable[[int], Job]
    step: int = 1
    misses: int = 2
    number: int = 1
    missed: int = 0
    results: list[Result] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    tried_twice: set[int] = field(default_factory=set)

    @property
    def over(self) -> bool:
        return not self.again and (self.missed >= self.misses or self.number > _MOST)

    def next(self) -> int:
        """The moment of the next job."""
        if self.again:
            return self.again.pop()
        number, self.number = self.number, self.number + self.step
        return number


def climb_all(*climbs: Climb, scene: str = "plain") -> None:
    """Carries out all climbs; their results are in the order of their moments, those that found the end left out.

    `scene`: what is run, `plain` (`crash.yaml`), `small` (the same with a few topics), `tools` (`tools.yaml`) or `thinking`
    (`crash_scenes.py`).
    """
    lock = threading.Lock()

    def jobs() -> Iterator[tuple[Job, Callable[[Result], None]]]:
        while True:
            with lock:
                climb = min((climb for climb in climbs if not climb.over), key=lambda climb: climb.number, default=None)
                if climb is None:
                    return
                number = climb.next()

            def take(result: Result, climb: Climb = climb, number: int = number) -> None:
                with lock:
                    if result["reached"] or result["faults"]:
                        climb.results.append({**result, "number": number})
                    if not result["reached"] and not result["faults"] and number not in climb.tried_twice:
                        climb.tried_twice.add(number)
                        climb.again.append(number)
                    elif not result["reached"]:
                        climb.missed += 1
            yield climb.job(number), take

    _work(jobs, scene)
    for climb in climbs:
        climb.results.sort(key=lambda result: int(result["number"]))


def carry_out(jobs: list[Job], scene: str = "plain") -> list[Result]:
    """The results of these jobs, in their order."""
    results: list[Result] = [{}] * len(jobs)
    lock, places = threading.Lock(), iter(range(len(jobs)))

    def each() -> Iterator[tuple[Job, Callable[[Result], None]]]:
        while True:
            with lock:
                place = next(places, None)
            if place is None:
                return
            yield jobs[place], lambda result, place=place: results.__setitem__(place, result)

    _work(each, scene)
    return results


def _work(jobs: Callable[[], Iterator[tuple[Job, Callable[[Result], None]]]], scene: str) -> None:
    failures: list[BaseException] = []

    def serve(folder: Path) -> None:
        try:
            with _worker(folder, scene) as ask:
                for job, take in jobs():
                    take(ask(job))
        except BaseException as error:
            failures.append(error)

    with scratch() as folder:
        threads = [threading.Thread(target=serve, args=(folder,)) for _ in range(max(2, os.cpu_count() or 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: what a killed process wrote is there whether it was synced or not.

    Its name is not that of a sandbox's copies (`sop-…`), which the next run sweeps up where nobody holds them.
    """
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="crash-of-sop-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _worker(folder: Path, scene: str) -> Iterator[Callable[[Job], Result]]:
    """A function that has one job done by a worker process of its own."""
    script = Path(__file__).with_name("crash_worker.py")
    found_as_here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(script), str(folder), scene], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, env=found_as_here) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise RuntimeError("a worker has no pipes")

        def ask(job: Job) -> Result:
            worker.stdin.write(json.dumps(job) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
            if not line:
                raise RuntimeError(f"a worker died at {job}; what it said stands above")
            result: Result = json.loads(line)
            return result

        try:
            yield ask
        finally:
            worker.stdin.close()
