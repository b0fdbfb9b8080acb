"""How long somebody waits at worst: hostile files, and what is read of large journals; and how large journals become.

python -m benchmarks.worst            # the table; some minutes
python -m benchmarks.worst --json     # the same, for programs
python -m benchmarks.worst --tiny     # sizes that only show that it works
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from benchmarks import hostile
from benchmarks.conversations import talk
from benchmarks.large_journal import Shape, answering, make_large_journal
from benchmarks.processes import SOP, seconds_of
from benchmarks.report import Report, command_line
from benchmarks.workers import beside, honest
from metaflow_agents import go_on
from metaflow_agents.schema.event import Fired, Reserved, RunEnded

CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many activations a journal has, how often what is timed is done, how many hostile pages are parsed at once, and how
    many rounds conversations have.
    """

    activations: int = 5000
    processes: int = 5
    hostile: int = 20
    rounds: tuple[int, ...] = (50, 100, 200, 1000)


def files(report: Report, folder: Path) -> None:
    """The slowest and the largest check among the hostile files, processor time of a process that has the check loaded."""
    told = hostile.told(folder)
    slowest = max(told, key=lambda name: told[name].seconds)
    largest = max(told, key=lambda name: told[name].mebibytes)
    report.add("hostile files: the slowest check", told[slowest].seconds, "s", f"{slowest!r}, of {len(told)} files", bound=1)
    report.add("hostile files: most memory", told[largest].mebibytes, "MiB", f"{largest!r}", bound=200)


def journals(report: Report, folder: Path, sizes: Sizes) -> None:
    """The slowest of the three shapes of a run: to read, and to go on with."""
    read: dict[str, list[tuple[float, str]]] = {"log": [], "show": []}
    resumed = []
    for shape in get_args(Shape):
        home = folder / shape
        path = home / ".journals/large.db"
        path.parent.mkdir(parents=True)
        make_large_journal(path, sizes.activations, shape=shape, size=CHARACTERS)
        for word, found in read.items():
            command = [*SOP, word, "large", "--workspace", str(home)]
            seconds_of(command, folder)                         # the first time Python compiles what it imports
            found.append((statistics.median(seconds_of(command, folder) for _ in range(sizes.processes)), shape))
        resumed.append((asyncio.run(_resumed(home)), shape))
    for name, found, bound in (*((f"`sop {word}`", found, 1.0) for word, found in read.items()),
                               ("resumed, to its first new firing or call", resumed, 5.0)):
        seconds, shape = max(found)
        report.add(f"{sizes.activations:,} activations: {name}", seconds, "s", f"{shape!r}, of three shapes", bound=bound)


async def _resumed(home: Path) -> float:
    """Seconds from opening the journal to the first new event of a run that goes on."""
    begun = time.perf_counter()
    async with go_on("large", workspace=home, model=answering(CHARACTERS)) as going:
        async with going.bus.events(Fired, Reserved, RunEnded) as news:
            await news.get()
        taken = time.perf_counter() - begun
        if not (await going.result()).ok:
            raise RuntimeError("the run does not go on to its end")
    return taken


def conversations(report: Report, folder: Path, sizes: Sizes) -> None:
    """Each request holds all that was said before."""
    for rounds in sizes.rounds:
        size = talk(folder / f"talk{rounds}", rounds)
        report.add(f"a conversation of {rounds:,} rounds: its journal", size, "of what was said", bound=3)


def measure(folder: Path, sizes: Sizes) -> tuple[Report, dict[str, Any]]:
    """All rows, in one run."""
    report = Report()
    files(report, folder)
    asyncio.run(honest(report, sizes.processes))
    asyncio.run(beside(report, sizes.hostile))
    journals(report, folder, sizes)
    conversations(report, folder, sizes)
    return report, {}


if __name__ == "__main__":
    command_line(__doc__, measure, Sizes(), Sizes(activations=60, processes=1, hostile=1, rounds=(6,)))
