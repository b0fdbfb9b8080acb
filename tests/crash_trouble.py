"""Runs of `crash/crash.yaml` that meet a full disk, or are stopped from outside, at a chosen moment; and the way on.

Unlike in `crash_harness` the process lives: it must end the run clearly, and leave nothing running.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import crash_harness as harness

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.store import Batch, Store
from metaflow_agents.output.workspace import Workspace
from metaflow_agents.runtime.handle import Run, RunResult

MET = 7
"""Exit code of a process that met its trouble and ended the run as it should."""
FULL = ("insert", "commit", "pages", "file", "temporary")
"""Where the disk is full from then on: the rows of a transaction, SQLite's own limit on pages (met at that write or a later
one), a file of the run's folder, the folder of a command. At a commit for that moment only: nothing may be written behind it."""


def full_and_go_on(home: Path, where: str, number: int, reference: harness.Facts) -> dict[str, Any]:
    """The disk is full at the `number`-th use; the run ends clearly; with space again it goes on to the same end."""
    return _met_and_went_on(home, reference, lambda: _run_out_of_space(home, where, number))


def stop_and_go_on(home: Path, seed: int, reference: harness.Facts) -> dict[str, Any]:
    """The run is stopped after an event taken by chance, once or twice; it rests as interrupted, and goes on."""
    return _met_and_went_on(home, reference, lambda: _stopped(home, random.Random(seed)))


def _met_and_went_on(home: Path, reference: harness.Facts, meet: Callable[[], int]) -> dict[str, Any]:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    faults: list[str] = []
    code = harness.forked(home, meet)
    if code not in (0, MET):
        faults.append(f"ended with {code}: {harness.trace(home)}")
    before = len(harness.called(home))
    then = harness.Facts()
    if code == MET:
        path = journal_path(home, harness.NAME)
        then = harness.at_death(path, home / "then")
        if sorted(os.listdir(path.parent)) != [path.name]:
            faults.append(f"left beside the journal: {sorted(os.listdir(path.parent))}")
        if then.outcome != "success" and harness.forked(home, lambda: harness.live(home)):
            faults.append(f"the resume failed: {harness.trace(home)}")
    faults += reference.differences(harness.facts(journal_path(home, harness.NAME), home / harness.NAME))
    again = then.settled & set(harness.called(home)[before:])
    if again:
        faults.append(f"answered, and asked again: {sorted(again)}")
    calls = Counter(harness.called(home))
    return {"reached": code == MET, "faults": faults, "excess": sum(calls.values()) - len(reference.reserved),
            "in_flight": len(then.reserved - then.settled)}


def _run_out_of_space(home: Path, where: str, number: int) -> int:
    count = Countdown(number)
    if where in ("file", "temporary"):
        _full_folder(where, count)
        result = asyncio.run(_watched(harness.begin(home)))
        if result.outcome == "success" and not count.over:
            return 0
        _must(count.over, "the disk was never full")
        _must(result.outcome == "stopped" and result.exit_status == 1, f"{result}")
        _must("No space left" in result.reason and "make room" in result.reason and "sop resume" in result.reason, result.reason)
    else:
        _full_journal(where, count)
        try:
            asyncio.run(_watched(harness.begin(home)))
        except JournalError as error:
            told = str(error)
            _must("disk is full" in told and "free space on" in told and "`sop resume run`" in told, told)
            _must(error.exit_status == 1, "its exit status is 1")
        else:
            # The last writes may fit into the pages that there are; what they wrote is compared with the reference all the same.
            _must(not count.over or where == "pages", "the journal was not written, and nobody was told")
            return 0
    _must(not (left := harness.left_running(home)), f"left running: {left}")
    return MET


class Countdown:
    """Called at each use; from the `number`-th on there is no space."""

    def __init__(self, number: int) -> None:
        self._left, self.now, self.over = number, False, False

    def __call__(self) -> bool:
        self._left -= 1
        self.now, self.over = self._left == 0, self._left <= 0
        return self.over


def _full_journal(where: str, full: Countdown) -> None:
    begin_and_insert, commit = Store._begin_and_insert, Store._commit

    def inserting(store: Store, batches: Sequence[Batch]) -> None:
        now = full()
        if now and where == "pages":
            store._writing().execute("PRAGMA max_page_count=1")     # SQLite takes it as: no page more than there are
        begin_and_insert(store, batches)
        if now and where == "insert":
            raise _sqlite_full()

    def committing(store: Store) -> None:
        if full.now and where == "commit":
            raise _sqlite_full()
        commit(store)

    Store._begin_and_insert, Store._commit = inserting, committing      # type: ignore[method-assign]


def _sqlite_full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


def _full_folder(where: str, full: Countdown) -> None:
    write, make = Workspace._write, tempfile.mkdtemp

    def writing(workspace: Workspace, path: str, data: bytes) -> None:
        if full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(workspace, path, data)

    def making(*arguments: Any, **options: Any) -> str:
        if full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return make(*arguments, **options)

    if where == "file":
        Workspace._write = writing                                      # type: ignore[method-assign]
    else:
        tempfile.mkdtemp = making                                       # type: ignore[assignment]


def _stopped(home: Path, chance: random.Random) -> int:
    """Stops the run as soon as the journal tells of its n-th event, or a little later."""
    seen, at = 0, chance.randint(0, 190 * len(harness.desk.TOPICS) // 18)
    pauses = [chance.choice((0, 0, 0.001, 0.004)) for _ in range(chance.choice((1, 1, 2, 3)))]

    def beside(going: Run) -> None:
        loop = asyncio.get_running_loop()

        def hear(*_: object) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                loop.call_soon(stop, 0)

        def stop(turn: int) -> None:
            going.stop()
            if turn + 1 < len(pauses):
                loop.call_later(pauses[turn + 1], stop, turn + 1)

        going.journal.listeners.append(hear)
        if at == 0:
            stop(0)                     # before the run took its first step

    result = asyncio.run(_watched(harness.begin(home), beside))
    _must(result.outcome in ("interrupted", "success"), f"{result}")
    _must(result.exit_status == (130 if result.outcome == "interrupted" else 0), f"{result}")
    _must(not (left := harness.left_running(home)), f"left running: {left}")
    return MET if result.outcome == "interrupted" else 0


async def _watched(run: Run, beside: Callable[[Run], None] | None = None) -> RunResult:
    """Drives it, and holds that not one task outlives it, and that the loop heard of no error that nobody took."""
    unheard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unheard.append(f"{context.get('message')}: {context.get('exception')!r}"))
    try:
        return await harness.drive(run, beside)
    finally:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        _must(not tasks, f"tasks live on: {tasks}")
        _must(not unheard, f"nobody took: {unheard}")


def _must(holds: object, message: str) -> None:
    if not holds:
        raise AssertionError(message)
