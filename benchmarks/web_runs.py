"""The runs that the web UI is measured with, made by the real engine in processes of their own; and the models of these.

The models need nothing but the standard library: `sop run` loads this file by its path (`--model python:FILE:answer`).
"""

from __future__ import annotations

import asyncio
import base64
import bisect
import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOP = Path(__file__).parent / "large/stories.yaml"
COMMAND = [sys.executable, "-c", "import sys; from metaflow_agents.cli import main; sys.exit(main())"]
RATE = 200                          # events a second of a run that is watched
EVERY = 0.2                         # seconds between two looks at how far a tab is behind
_EVENTS = 3                         # of an activation: asked, answered, finished
_SIZE = 1000                        # characters of a story
_GO = Path("go")                    # the models of a run that is watched wait for this file in its folder
_next = 0.0


async def answer(request: Any) -> Any:
    """A story that hardly compresses, or a verdict: every sixth lacks its reason, and is asked for again."""
    known = hashlib.shake_256(request.key.encode()).digest(_SIZE * 3 // 4)
    if request.step == "write":
        return base64.b64encode(known).decode()
    good = known[0] % 4 > 0
    return {"good": good} if known[1] % 6 == 0 else {"good": good, "why": f"It is {'' if good else 'not '}well told."}


async def paced(request: Any) -> Any:
    """The same, in turns, so that there are about RATE events a second, once the run is let go."""
    global _next
    while not _GO.exists():          # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.02)
    now = time.monotonic()
    _next = max(_next, now) + _EVENTS / RATE
    await asyncio.sleep(_next - now)
    return await answer(request)


def made(folder: Path, name: str, rounds: int, each: int) -> None:
    """A run to its end. Raises RuntimeError where it ends otherwise."""
    _ended(_begun(folder, name, rounds, each, "answer"))


@dataclass
class Watching:
    """A run that goes on while somebody looks at it."""

    folder: Path
    name: str
    process: subprocess.Popen[str]
    _times: list[float] = field(default_factory=list)

    def go(self) -> None:
        """Its models wait no longer."""
        (self.folder / _GO).touch()

    def goes_on(self) -> bool:
        """Whether it is not over. Raises RuntimeError where it ended badly."""
        if self.process.poll() is None:
            return True
        _ended(self.process)
        return False

    def times(self) -> list[float]:
        """When each event of the run, which is over, came about: Unix time."""
        from metaflow_agents.journal.places import journal_path
        from metaflow_agents.journal.run_summary import RawJournal

        if not self._times:
            with RawJournal(journal_path(self.folder / "workspace", self.name)) as journal:
                self._times = [event["at"] for _, event in journal.events()]
        return self._times

    def last(self) -> int:
        """Number of its last event."""
        return len(self.times())

    def rate(self, began: float) -> float:
        """Events a second from then on to its end."""
        times = self.times()
        return (len(times) - bisect.bisect(times, began)) / (times[-1] - began)

    def behind(self, shown: Sequence[tuple[float, int]], began: float) -> list[float]:
        """How many seconds a tab was behind, looked at every EVERY seconds from `began` until it showed the end.

        `shown`: when which event became the last one that it shows. It is behind by the age of the next event, if there is one.
        """
        times, found = self.times(), []
        moments = [at for at, _ in shown]
        while began < moments[-1]:
            place = bisect.bisect(moments, began)
            number = shown[place - 1][1] if place else 0
            found.append(max(began - times[number], 0.0) if number < len(times) else 0.0)
            began += EVERY
        return found or [0.0]


@contextmanager
def watching(folder: Path, name: str, items: int) -> Iterator[Watching]:
    """A run of so many items that are written and judged, begun, and held until it is told to go."""
    (folder / _GO).unlink(missing_ok=True)
    process = _begun(folder, name, 1, items, "paced")
    try:
        journal = folder / "workspace" / ".journals" / f"{name}.db"
        deadline = time.monotonic() + 120
        while not (journal.exists() and _asked(journal)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the run {name} does not begin")
            time.sleep(0.05)
        yield Watching(folder, name, process)
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _asked(journal: Path) -> bool:
    from metaflow_agents.journal.run_summary import RawJournal

    with RawJournal(journal) as rows:
        return rows.last() > 4


def _begun(folder: Path, name: str, rounds: int, each: int, model: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "run", str(SOP), "--rounds", str(rounds), "--each", str(each), "--name", name,
               "--model", f"python:{__file__}:{model}"]
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)


def _ended(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a run ended with {process.returncode}: {said}")
