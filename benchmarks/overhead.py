"""What the framework costs beside a loop written by hand, in front of an endpoint that answers at once or after 200 ms.

    python -m benchmarks.overhead            # the table; some minutes
    python -m benchmarks.overhead --json     # the same, for programs
    python -m benchmarks.overhead --tiny     # sizes that only show that it works

The endpoint is a process of its own (`endpoint.py`), and so is each contender each time (`contenders.py`): this engine with
everything on, a bare loop on `openai.AsyncOpenAI` as it comes, a loop on aiohttp alone, and LangGraph for the short runs. They
take turns, A B C A B C, and what is told are medians; a bound stands on the ratio to the one that is named beside it.
`benchmarks/README.md` says what each row means.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.report import Report, command_line

TOP = Path(__file__).resolve().parent.parent
WHO = ("engine", "openai", "aiohttp")
NAMED = {"openai": "the bare `openai` loop", "engine": "the same, not exported", "langgraph": "LangGraph, `AsyncSqliteSaver`"}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    rounds: int = 250           # of four calls, in one run
    runs: int = 60              # of four calls each
    many: int = 10_000          # likewise, 200 at a time
    wide: tuple[int, ...] = (200, 1000)
    repeats: int = 5


TINY = Sizes(rounds=2, runs=2, many=3, wide=(3, 5), repeats=1)
Found = dict[str, list[dict[str, float]]]
"""Contender → what it told, each time."""


class Bench:
    """Runs the contenders in turns against one endpoint."""

    def __init__(self, url: str, folder: Path, sizes: Sizes) -> None:
        self.url, self.folder, self.sizes, self.report = url, folder, sizes, Report()

    def run(self) -> Report:
        """All rows."""
        for name, part in (("chain", self.chain), ("export", self.export), ("memory", self.memory), ("runs", self.runs),
                           ("many", self.many), ("team", self.team), ("start", self.start)):
            print(f"{name} …", file=sys.stderr, flush=True)
            part()
        return self.report

    def chain(self) -> None:
        """CPU per call of a chain of four roles."""
        found = self._turns("chain", self.sizes.rounds)
        self._compared("(a) four roles in turn, one long run: CPU a call", found, _cpu, "ms", 0.7)
        self._beside("(a) four roles in turn: CPU a call on aiohttp alone", found, "aiohttp", _cpu, "ms")

    def export(self) -> None:
        """The same chain while it is exported to OpenTelemetry."""
        found = self._turns("chain", self.sizes.rounds, ("engine", "exported"))
        mine, other = (statistics.median(map(_cpu, found[who])) for who in ("exported", "engine"))
        self.report.add("(a) exported to OpenTelemetry: CPU a call", mine, "ms", NAMED["engine"], other, bound=1.02,
                        compared=True)
        thread = statistics.median(told["thread"] / told["calls"] * 1e3 for told in found["exported"])
        self.report.add("(a) of it the exporting thread", thread, "ms", NAMED["engine"], other, bound=0.02, compared=True)

    def memory(self) -> None:
        """Where each chain is a run of its own, all in memory."""
        found = self._turns("memory", self.sizes.runs, ("engine", "openai"))
        self._compared("(f) runs of four calls, in memory: CPU a call", found, _cpu, "ms", 1.0)

    def runs(self) -> None:
        """The same with everything on disk, beside a graph that keeps its checkpoints there."""
        found = self._turns("runs", self.sizes.runs, ("engine", "openai", "langgraph"))
        self._compared("(g) runs of four calls, durable: CPU a call", found, _cpu, "ms", 1.6)
        for what, of in (("CPU", _cpu), ("time", _each)):
            self._compared(f"(g) the same beside LangGraph: {what} a call", found, of, "ms", 0.75, beside="langgraph")

    def many(self) -> None:
        """Many runs side by side in one process."""
        told = self._once("engine", "many", self.sizes.many)
        self.report.add(f"(h) {self.sizes.many:,} runs of four calls, 200 at a time: CPU a call", _cpu(told), "ms")
        self.report.add("(h) memory grown in the second half of them", told["grown"] / 2**20, "MB", bound=16)

    def team(self) -> None:
        """Makespan of a planner, many engineers and a judge; and memory."""
        for letter, bound, count in zip("bc", (0.75, 0.5), self.sizes.wide, strict=True):
            found = self._turns("team", count)
            self._compared(f"({letter}) {count:,} engineers at 200 ms: makespan", found, _wall, "s", bound)
            self._beside(f"({letter}) {count:,} engineers: makespan on aiohttp alone", found, "aiohttp", _wall, "s")
            self._compared(f"({letter}) {count:,} engineers: CPU a call", found, _cpu, "ms")
        self._compared(f"(e) {self.sizes.wide[-1]:,} engineers: most memory", found, lambda told: told["memory"] / 2**20, "MB",
                       1.2)

    def start(self) -> None:
        """From the start of the process to the first request."""
        found = self._turns("start", 1)
        self._compared("(d) from process start to the first request", found, lambda told: told["first"], "s", 1.0)
        self._beside("(d) to the first request on aiohttp alone", found, "aiohttp", lambda told: told["first"], "s")

    def _turns(self, task: str, count: int, who: tuple[str, ...] = WHO) -> Found:
        found: Found = {name: [] for name in who}
        for _ in range(self.sizes.repeats):
            for name in who:
                found[name].append(self._once(name, task, count))
        return found

    def _once(self, who: str, task: str, count: int) -> dict[str, float]:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        self._asked()
        command = [sys.executable, "-m", "benchmarks.contenders", who, task, self.url, "--count", str(count),
                   "--folder", str(folder)]
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.folder / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)        # compiled files are kept, as they are beside what is installed
        began = time.monotonic()
        done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{who} {task} ended with {done.returncode}: {done.stderr}")
        told: dict[str, float] = json.loads(done.stdout)
        first, came = self._asked()
        shutil.rmtree(folder)
        if came < told["calls"]:
            raise RuntimeError(f"{who} {task} tells of {told['calls']} calls, and {came} requests came")
        return {**told, "first": first - began}

    def _asked(self) -> tuple[float, int]:
        with urllib.request.urlopen(f"{self.url}/first", timeout=10) as answer:
            first, came = json.load(answer)
        return first or 0.0, came

    def _compared(self, name: str, found: Found, of: Callable[[dict[str, float]], float], unit: str,
                  bound: float | None = None, *, beside: str = "openai") -> None:
        mine, other = (statistics.median(map(of, found[who])) for who in ("engine", beside))
        self.report.add(name, mine, unit, NAMED[beside], other, bound=bound, compared=True)

    def _beside(self, name: str, found: Found, who: str, of: Callable[[dict[str, float]], float], unit: str) -> None:
        mine, other = (statistics.median(map(of, found[each])) for each in (who, "openai"))
        self.report.add(name, mine, unit, NAMED["openai"], other, compared=True)


def _cpu(told: dict[str, float]) -> float:
    return told["cpu"] / told["calls"] * 1e3


def _each(told: dict[str, float]) -> float:
    return told["wall"] / told["calls"] * 1e3


def _wall(told: dict[str, float]) -> float:
    return told["wall"]


@contextmanager
def endpoint() -> Iterator[str]:
    """The endpoint in a process of its own, for as long as this is open: its address."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.endpoint"], cwd=TOP, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


def measure(folder: Path, sizes: Sizes) -> tuple[Report, dict[str, Any]]:
    """All rows, in one run. `folder` is where runs are written: on a real disk, or the synced journal costs nothing."""
    with endpoint() as url:
        report = Bench(url, folder, sizes).run()
    return report, {name: version(name) for name in ("openai", "aiohttp", "langgraph")}


if __name__ == "__main__":
    command_line(__doc__, measure, Sizes(), TINY)
