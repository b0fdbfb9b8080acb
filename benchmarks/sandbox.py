"""What the sandbox adds to a command: a repository of 200 files copied in, the command confined, its changes collected.

    python -m benchmarks.sandbox            # the table; about a minute
    python -m benchmarks.sandbox --json     # the same, for programs
    python -m benchmarks.sandbox --tiny     # sizes that only show that it works

The plain command is the same program on the same files, which already lie there. All of them are taken in turns, A B C A B C.
`benchmarks/README.md` says what each row means.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Report, command_line
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.choice import CONFINING, choose, looked_at
from metaflow_agents.sandbox.engines import engine_of
from metaflow_agents.sandbox.probe import bubblewrap_holds
from metaflow_agents.sandbox.unconfined import Unconfined
from metaflow_agents.settings import Settings

COMMAND = ("sh", "-c", "echo new > src/p3/new.py; echo changed > src/p4/m44.py")
BARE = ("--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib",
        "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    files: int = 200
    commands: int = 200
    together: int = 100
    at_once: int = 8
    code: int = 100


TINY = Sizes(files=60, commands=3, together=4, at_once=2, code=3)


def repository(count: int) -> dict[str, bytes]:
    """Files as they lie in a small project: some kilobytes each, in ten folders."""
    line = b"    return [one for one in range(10) if one % 2]\n"
    return {f"src/p{number % 10}/m{number}.py": b"def f():\n" + line * (20 + number) for number in range(count)}


def plain(folder: Path, argv: Sequence[str]) -> float:
    """Seconds of a command that nothing confines."""
    began = time.monotonic()
    subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.monotonic() - began


class Bench:
    """The rows."""

    def __init__(self, program: str, folder: Path, sizes: Sizes) -> None:
        self.sizes, self.report, self.folder = sizes, Report(), folder / "there"
        self.program, self.files = program, repository(sizes.files)
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        self.box, self.unconfined = Bubblewrap(program, environment), Unconfined(environment)
        for path, data in self.files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)

    async def run(self) -> Report:
        """All rows."""
        await self.one_by_one()
        await self.together()
        await self.code()
        await self.starts()
        return self.report

    async def one(self, sandbox: Bubblewrap | Unconfined) -> float:
        """Seconds of the same command in a sandbox, from the files to the changes."""
        began = time.monotonic()
        ran = await sandbox.run(COMMAND, files=self.files, changes=True)
        took = time.monotonic() - began
        if not ran.ok or ran.changes is None or set(ran.changes.written) != {"src/p3/new.py", "src/p4/m44.py"}:
            raise RuntimeError(f"it did not do what was asked: {ran}")
        return took

    async def one_by_one(self) -> None:
        """One command after the other."""
        found: dict[str, list[float]] = {"plain": [], "bwrap": [], "none": [], "box": []}
        bare = [self.program, *BARE, "--bind", str(self.folder), "/w", "--chdir", "/w", "--", *COMMAND]
        await self.one(self.box)
        for _ in range(self.sizes.commands):
            found["plain"].append(plain(self.folder, COMMAND))
            found["bwrap"].append(plain(self.folder, bare))
            found["none"].append(await self.one(self.unconfined))
            found["box"].append(await self.one(self.box))
        for name, of, bound in (("half", statistics.median, None), ("95 of 100", _p95, 50.0)):
            usual = of(found["plain"])
            self._added(f"sandboxed command, added: {name} within", of(found["box"]) - usual, usual, bound)
        usual = statistics.median(found["plain"])
        self._added("bubblewrap alone, added: half within", statistics.median(found["bwrap"]) - usual, usual)
        self._added("unconfined command, added: half within", statistics.median(found["none"]) - usual, usual)

    async def together(self) -> None:
        """Many commands, some at a time."""
        gate = asyncio.Semaphore(self.sizes.at_once)

        async def gated() -> float:
            async with gate:
                return await self.one(self.box)

        began = time.monotonic()
        found = await asyncio.gather(*(gated() for _ in range(self.sizes.together)))
        took = time.monotonic() - began
        began = time.monotonic()
        for _ in range(self.sizes.together):
            plain(self.folder, COMMAND)
        usual = time.monotonic() - began
        name = f"{self.sizes.together} sandboxed commands, {self.sizes.at_once} at a time"
        self.report.add(f"{name}: makespan", took, "s", "plain, one after the other", usual)
        self.report.add(f"{name}: half within", statistics.median(found) * 1e3, "ms")
        self.report.add(f"{name}: 95 of 100 within", _p95(found) * 1e3, "ms")

    async def starts(self) -> None:
        """The least command in each sandbox that holds here, in turns with the plain one."""
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        settings = Settings.read()
        holding = [name for name in CONFINING if looked_at(name, environment, engine_of(settings)).program is not None]
        boxes = {name: choose(name, environment, what_for="", engine=engine_of(settings)) for name in holding}
        found: dict[str, list[float]] = {name: [] for name in ("plain", *holding)}
        for _ in range(max(3, self.sizes.commands // 10)):
            found["plain"].append(plain(self.folder, ("true",)))
            for name, box in boxes.items():
                began = time.monotonic()
                await box.run(("true",), files={})
                found[name].append(time.monotonic() - began)
        usual = statistics.median(found["plain"])
        for name in holding:
            self.report.add(f"`true` in {name}: half within", statistics.median(found[name]) * 1e3, "ms", "the plain command",
                            usual * 1e3)

    async def code(self) -> None:
        """Pieces of code in the scratch interpreter."""
        async with self.box.interpreter(files=self.files) as python:
            began = time.monotonic()
            await python.execute("x = 1", 30)
            first = time.monotonic() - began
            found = []
            for _ in range(self.sizes.code):
                began = time.monotonic()
                await python.execute("x + 1", 30)
                found.append(time.monotonic() - began)
        self.report.add("scratch interpreter: its first code", first * 1e3, "ms")
        self.report.add("scratch interpreter: each further one", statistics.median(found) * 1e3, "ms")

    def _added(self, name: str, added: float, usual: float, bound: float | None = None) -> None:
        self.report.add(name, added * 1e3, "ms", "the plain command", usual * 1e3, bound=bound)


def _p95(found: Sequence[float]) -> float:
    return sorted(found)[min(len(found) - 1, int(0.95 * len(found)))]


def measure(folder: Path, sizes: Sizes) -> tuple[Report, dict[str, Any]]:
    """All rows, in one run. `folder`: where the plain command works; copies lie in the folder for temporary files."""
    found = bubblewrap_holds(os.environ.get("PATH"))
    if found.program is None:
        raise SystemExit(f"there is nothing to measure: {found.why}; {found.mend}")
    report = asyncio.run(Bench(found.program, folder, sizes).run())
    return report, {"user": "root" if os.geteuid() == 0 else "ordinary"}


if __name__ == "__main__":
    command_line(__doc__, measure, Sizes(), TINY)
