"""What the engine adds to the work that it carries, measured in one run beside what it is compared with.

    python -m benchmarks.engine            # the table; about a minute
    python -m benchmarks.engine --json     # the same, for programs
    python -m benchmarks.engine --tiny     # sizes that only show that it works

`benchmarks/README.md` says what each row means. Times are wall time unless a row says CPU; what is compared is measured
in turns, A B A B, and told as medians, so that the load of the machine falls on both.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import SOP, seconds_of
from benchmarks.report import Report, command_line
from metaflow_agents import ModelRequest, RunResult, go_on, start
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Sent
from metaflow_agents.schema.model import digest

IMPORTS = [sys.executable, "-c", "import pydantic, yaml, jinja2"]
LATENCY = 0.05
Answer = Callable[[ModelRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    chain: int = 40
    items: int = 200
    fan: int = 1000
    appends: int = 200
    large: int = 5000
    repeats: int = 5
    processes: int = 9


TINY = Sizes(chain=3, items=4, fan=10, appends=4, large=60, repeats=1, processes=1)


_WHO = "{profile: You work., goal: Good work., constraints: [be brief]}"
ROLES = "{" + ", ".join(f"worker_{n}: {_WHO}" for n in range(4)) + "}"
NOTE = "{title: string, points: [{text: string, weight: integer}], 'remark?': string}"
ANSWER = {"title": "a note", "points": [{"text": f"point {n} of this note", "weight": n} for n in range(4)]}


def chain(length: int) -> str:
    """Role steps one after the other, each reading what the one before it made, each with a file in the run's folder."""
    artifacts = "".join(f"  n{i}: {{schema: {NOTE}, file: docs/n{i}.json}}\n" for i in range(length))
    steps = "".join(
        f"  s{i}: {{role: worker_{i % 4}, needs: [{f'n{i - 1}' if i else 'idea'}], makes: n{i}, "
        f"task: \"Write the next note, number {i}, after the one before it.\"}}\n" for i in range(length))
    return (f"sop: chain\ninputs: {{idea: string}}\nroles: {ROLES}\nartifacts:\n{artifacts}steps:\n{steps}"
            f"outputs: [n{length - 1}]\n")


def fan(parallel: int | None = None, *, whole: bool = False) -> str:
    """One role step over a list: a collection with a schema, and a file made of it. `whole`: each prompt shows the list."""
    told = "" if whole else "One of {{ tasks | length }} tasks. "     # what the task names is not shown beside it
    limit = "" if parallel is None else f", parallel: {parallel}"
    return (f"sop: fan\ninputs: {{tasks: [{{id: string, text: string}}]}}\nroles: {ROLES}\n"
            f"artifacts:\n  notes: {{each: {NOTE}, file: docs/notes.json}}\n"
            f"steps:\n  work:\n    role: worker_0\n    needs: [tasks]\n    makes: notes\n"
            f"    foreach: {{in: tasks, as: task, key: task.id{limit}}}\n"
            f"    task: \"{told}Write a note on this: {{{{ task.text }}}}\"\noutputs: [notes]\n")


def tasks(count: int) -> list[dict[str, str]]:
    """The list that `fan` walks over."""
    return [{"id": f"t{i}", "text": f"task {i}: say what there is to say"} for i in range(count)]


async def at_once(request: ModelRequest) -> Any:
    """A model without latency."""
    return ANSWER


async def later(request: ModelRequest) -> Any:
    """A model that takes its time."""
    await asyncio.sleep(LATENCY)
    return ANSWER


@dataclass(slots=True)
class Timed:
    """Wall and CPU seconds of one stretch; CPU counts every thread of the process."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def timed() -> Iterator[Timed]:
    """Measures its body."""
    gc.collect()
    found = Timed(time.perf_counter(), time.process_time())
    yield found
    found.wall, found.cpu = time.perf_counter() - found.wall, time.process_time() - found.cpu


class Bench:
    """Runs the parts one after the other in a folder of its own."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.folder, self.sizes, self.report = folder, sizes, Report()
        self._number = 0

    def sop(self, text: str) -> Path:
        """The text as a SOP file."""
        self._number += 1
        path = self.folder / f"sop{self._number}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    async def run(self, sop: Path, model: Answer, **inputs: Any) -> Timed:
        """One whole run from its first event to its last, the check of the SOP left out."""
        self._number += 1
        run = start(sop, model=model, workspace=self.folder / "runs", name=f"r{self._number}", inputs=inputs)
        with timed() as found:
            async with run:
                result = await run.result()
        _fine(result)
        return found

    async def added(self, name: str, sop: Path, count: int, *, parallel: bool = False, **inputs: Any) -> None:
        """Added cost per activation against the plain function called as often."""
        plain, wall, cpu = [], [], []
        for _ in range(self.sizes.repeats):
            with timed() as bare:
                await _plainly(at_once, count, parallel=parallel)
            found = await self.run(sop, at_once, **inputs)
            plain.append(bare.wall / count * 1e6)
            wall.append((found.wall - bare.wall) / count * 1e6)
            cpu.append((found.cpu - bare.cpu) / count * 1e6)
        self.report.add(f"{name}: added per activation", _middle(wall), "µs", "a plain call", _middle(plain))
        self.report.add(f"{name}: added CPU per activation", _middle(cpu), "µs")

    async def activations(self) -> None:
        """Chain, sequential and parallel `foreach`."""
        sizes = self.sizes
        await self.added("chain", self.sop(chain(sizes.chain)), sizes.chain, idea="a pocket calculator")
        await self.added("foreach, one by one", self.sop(fan(1)), sizes.items, tasks=tasks(sizes.items))
        await self.added("foreach, all at once", self.sop(fan()), sizes.items, parallel=True, tasks=tasks(sizes.items))

    async def wide(self) -> None:
        """A wide fan-out: without latency, and against the ideal makespan of a model that takes 50 ms."""
        count, sop = self.sizes.fan, self.sop(fan())
        whole, small = self.sop(fan(whole=True)), count // 5
        walls, cpus, slow, ideal, shown = [], [], [], [], []
        for _ in range(self.sizes.repeats):
            found = await self.run(sop, at_once, tasks=tasks(count))
            walls.append(found.wall)
            cpus.append(found.cpu / count * 1e6)
            shown.append((await self.run(whole, at_once, tasks=tasks(small))).cpu / small * 1e6)
            with timed() as bare:
                await _plainly(later, count, parallel=True)
            ideal.append(bare.wall)
            slow.append((await self.run(sop, later, tasks=tasks(count))).wall)
        self.report.add(f"fan-out of {count:,}: makespan", _middle(walls), "s")
        self.report.add(f"fan-out of {count:,}: CPU per activation", _middle(cpus), "µs")
        self.report.add(f"fan-out of {small:,}, whole list in each prompt: CPU", _middle(shown), "µs")
        self.report.add(f"fan-out of {count:,} at 50 ms: makespan", _middle(slow), "s", "`gather` of the plain function",
                        _middle(ideal), compared=True)

    async def commits(self) -> None:
        """Synced appends: one alone, many together, and SQLite's own commit of the same row."""
        event, blob = Sent(sender="worker_0", to="worker_1", payload="0" * 64), os.urandom(400)
        count = self.sizes.appends
        alone, grouped, raw = [], [], []

        def blobs(number: int) -> dict[str, bytes]:
            data = number.to_bytes(8, "big") + blob
            return {digest(data): data}

        path = self.folder / "commits.db"
        with _sqlite(self.folder / "raw.db") as connection:
            async with Journal.create(path) as journal:
                for number in range(count):
                    begun = time.perf_counter()
                    await journal.append(event, blobs=blobs(number))
                    alone.append(time.perf_counter() - begun)
                    begun = time.perf_counter()
                    _commit(connection, number, event.model_dump_json(), blobs(number))
                    raw.append(time.perf_counter() - begun)
                for turn in range(self.sizes.repeats):
                    begun = time.perf_counter()
                    await asyncio.gather(*(self._appends(journal, event, blobs, (turn + 1) * 10**6 + task * 10**4)
                                           for task in range(64)))
                    grouped.append((time.perf_counter() - begun) / (64 * 10))
        for name, found in (("alone", alone), ("64 at once: each", grouped)):
            self.report.add(f"synced append, {name}", _middle(found) * 1e6, "µs", "SQLite's own commit", _middle(raw) * 1e6,
                            compared=True)

    @staticmethod
    async def _appends(journal: Journal, event: Sent, blobs: Callable[[int], dict[str, bytes]], first: int) -> None:
        for number in range(10):
            await journal.append(event, blobs=blobs(first + number))

    def commands(self) -> None:
        """Process times of the command, against a Python that only imports what it stands on."""
        company = Path(__file__).resolve().parent.parent / "sops/design_first.yaml"
        wanted = {"`sop --help`": (["--help"], 2.0), "`sop check design_first.yaml`": (["check", str(company)], 3.5)}
        for name, (arguments, bound) in wanted.items():
            for command in (IMPORTS, [*SOP, *arguments]):
                seconds_of(command, self.folder)                      # the first time Python compiles what it imports
            base, own = [], []
            for _ in range(self.sizes.processes):
                base.append(seconds_of(IMPORTS, self.folder) * 1e3)
                own.append(seconds_of([*SOP, *arguments], self.folder) * 1e3)
            self.report.add(name, _middle(own), "ms", "python importing pydantic, yaml, jinja2", _middle(base), bound=bound,
                            compared=True)

    async def large(self) -> None:
        """A journal of many activations: memory while it is written, then resumed to its end."""
        count, failing, resident = self.sizes.large, True, {}
        seen = 0

        async def model(request: ModelRequest) -> Any:
            nonlocal seen
            seen += 1
            if seen in (count // 5, count - 1):
                gc.collect()
                resident[seen] = _resident()
            if failing and f"[t{count - 1}]" in request.key:
                raise ValueError("the last one fails, so that there is something to go on with")
            return ANSWER

        home, sop = self.folder / "runs", self.sop(fan(50))
        run = start(sop, model=model, workspace=home, name="large", inputs={"tasks": tasks(count)})
        async with run:
            with timed() as writing:
                ended = await run.result()
        if ended.outcome != "stopped":
            raise RuntimeError(f"the large run was to stop at its last item, and ended with {ended.outcome}: {ended.reason}")
        failing = False
        with timed() as resuming:
            async with go_on("large", workspace=home, model=model) as going:
                _fine(await going.result())
        grown = (resident[count - 1] - resident[count // 5]) / (count - 1 - count // 5)
        self.report.add(f"{count:,} activations: written in", writing.wall, "s")
        self.report.add(f"{count:,} activations: memory grown by, each", grown / 1024, "KiB")
        size = (home / ".journals/large.db").stat().st_size
        self.report.add(f"{count:,} activations: size of the journal", size / 2**20, "MiB")
        self.report.add(f"{count:,} activations: resume", resuming.wall, "s", bound=5)


async def _plainly(model: Answer, count: int, *, parallel: bool) -> None:
    requests = [ModelRequest(key=f"plain@1[{i}]~0/turn.0", role="worker_0", step="plain", model="plain",
                             messages=({"role": "user", "content": "Write a note."},)) for i in range(count)]
    if parallel:
        await asyncio.gather(*map(model, requests))
    else:
        for request in requests:
            await model(request)


def _fine(result: RunResult) -> None:
    if not result.ok:
        raise RuntimeError(f"run {result.name} ended with {result.outcome}: {result.reason}")


def _middle(values: list[float]) -> float:
    return statistics.median(values)


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE events(seq INTEGER PRIMARY KEY, kind TEXT, data TEXT)")
    connection.execute("CREATE TABLE blobs(digest TEXT PRIMARY KEY, packed INTEGER, data BLOB)")
    yield connection
    connection.close()


def _commit(connection: sqlite3.Connection, number: int, data: str, blobs: dict[str, bytes]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO blobs VALUES (?, 0, ?)", blobs.items())
    connection.execute("INSERT INTO events VALUES (?, 'sent', ?)", (number, data))
    connection.execute("COMMIT")


async def parts(bench: Bench) -> AsyncIterator[str]:
    """Runs the parts, naming each before it begins."""
    yield "activations"
    await bench.activations()
    yield "fan-out"
    await bench.wide()
    yield "commits"
    await bench.commits()
    yield "commands"
    bench.commands()
    yield "large journal"
    await bench.large()


async def _all(bench: Bench) -> None:
    async for name in parts(bench):
        print(f"{name} …", file=sys.stderr, flush=True)


def measure(folder: Path, sizes: Sizes) -> tuple[Report, dict[str, Any]]:
    """All rows, in one run. `folder` is where runs are written: on a real disk, or the synced rows say nothing."""
    bench = Bench(folder, sizes)
    asyncio.run(_all(bench))
    return bench.report, {}


if __name__ == "__main__":
    command_line(__doc__, measure, Sizes(), TINY)
