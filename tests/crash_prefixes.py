"""A run recorded once, and every state of its files in which a kill could have left it: laid down again and resumed in process.

A kill leaves a prefix of the journal, and beside it what the process had done outside of the journal by then: files of the run's
directory, the project's memory, payments, the heads of audits. So the recording takes all of that down before and after each
transaction, and before and after each batch of memories. What replay can't see, that something acts before it writes, is checked
while recording (`crash_written.py`); torn files and dead processes need real kills (`test_crash.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import crash_harness as harness
from crash_harness import NAME, Facts, Life
from tiers import ALL, SEED

from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.store import Batch, Store
from metaflow_agents.memory.store import MemoryDatabase

World = Mapping[str, tuple[int, bytes]]
"""Path below the home → mode and bytes, of everything but the journal; directories have no bytes."""
_UNSEEN = ("calls", "told")
"""What the tests note down there for themselves: a resume can't see it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a process that is killed now leaves. `seq`: the last durable event; `what`: where it is, in words."""

    seq: int
    what: str
    world: World


class Recording:
    """The moments of a run, in order; those of which a resume sees the same are one. Use it by `recorded`."""

    def __init__(self, home: Path, after: int = 0) -> None:
        self.home, self.path = home, journal_path(home, NAME)
        self.faults: list[str] = []
        self.writes = 0
        self._found: dict[object, Moment] = {}
        self._seq = after
        self._blobs = dict.fromkeys(self._durable() if after else (), after)        # digest → the event with which it became so
        self._lock = threading.RLock()
        self._kept = home.with_name(f"{home.name}-kept.db")

    def _durable(self) -> list[str]:
        connection = sqlite3.connect(self.path)
        try:
            return [digest for digest, in connection.execute("SELECT digest FROM blobs")]
        finally:
            connection.close()

    @property
    def moments(self) -> list[Moment]:
        """All of them."""
        return list(self._found.values())

    @property
    def open(self) -> list[Moment]:
        """Those before the run's end."""
        return [moment for moment in self.moments if moment.seq < self._seq]

    def take(self, what: str) -> None:
        """This is a moment."""
        with self._lock:
            if not self.path.exists():
                return                                  # it is not begun
            world = dict(self._world())
            seen = frozenset((path, *kept) for path, kept in world.items() if path not in _UNSEEN)
            self._found[self._seq, seen] = Moment(self._seq, what, world)

    def begins(self, store: Store, batches: Sequence[Batch]) -> None:
        """A transaction is about to be made. Each of its appends could have been written alone: a moment, too, of which the full
        tier takes all, and the other one a fourth, and those that stand between the end of a step's work and its commit.
        """
        if not (self.writes or self._seq):              # a journal is born with its first events, in a transaction of its own
            self._seq = store.last()
            self._blobs = dict.fromkeys(self._durable(), self._seq)
        self.writes += 1
        self.take(f"before write {self.writes}")
        with self._lock:
            world = dict(self._world())
        for batch, following in pairwise(batches):
            if not batch.rows:
                continue
            seq = batch.rows[-1][0]
            ends = batch.rows[-1][1] == "finished" and following.rows and following.rows[0][1] == "committed"
            if ALL or ends or (seq + SEED) % 4 == 0:
                self._found[seq, "alone"] = Moment(seq, f"write {self.writes} up to event {seq}", world)
        if store._writing().execute("PRAGMA synchronous").fetchone()[0] < 2:
            self.faults.append(f"write {self.writes} is not synced")

    def commits(self, commit: Callable[[], None], batches: Sequence[Batch]) -> None:
        """The transaction becomes durable. No moment is taken meanwhile."""
        with self._lock:
            commit()
            self._seq = max([self._seq, *(row[0] for batch in batches for row in batch.rows)])
            for batch in batches:
                for digest in batch.blobs:
                    self._blobs.setdefault(digest, batch.rows[-1][0] if batch.rows else self._seq)
            self.take(f"after write {self.writes}")

    def _world(self) -> Iterator[tuple[str, tuple[int, bytes]]]:
        for folder, folders, files in os.walk(self.home):
            for name in (*folders, *files):
                path = Path(folder, name)
                if path.parent == self.path.parent and name.startswith(self.path.name) and not name.endswith(".answers"):
                    continue                            # the journal itself
                try:
                    mode = path.lstat().st_mode
                    yield os.path.relpath(path, self.home), (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
                except FileNotFoundError:
                    continue                            # renamed meanwhile, as it may be when a process dies

    def keep(self) -> None:
        """The run is over: its journal is put aside."""
        shutil.copyfile(self.path, self._kept)

    def lay(self, moment: Moment) -> None:
        """Makes the home what it was at a moment."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        for name, (mode, data) in moment.world.items():
            path = self.home / name
            if stat.S_ISDIR(mode):
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(data)
                path.chmod(stat.S_IMODE(mode))
        self.path.parent.mkdir(exist_ok=True)
        shutil.copyfile(self._kept, self.path)
        self.path.with_name(f"{self.path.name}.lock").touch()           # nobody holds it any more
        later = [(digest,) for digest, seq in self._blobs.items() if seq > moment.seq]
        connection = sqlite3.connect(self.path)
        try:
            connection.execute("PRAGMA synchronous=OFF")
            with connection:
                connection.execute("DELETE FROM events WHERE seq > ?", (moment.seq,))
                connection.executemany("DELETE FROM blobs WHERE digest = ?", later)
        finally:
            connection.close()


@contextmanager
def recorded(home: Path, *, after: int = 0) -> Iterator[Recording]:
    """Records the run in this home that is made inside, or gone on with, `after` so many events."""
    recording = Recording(home, after)
    begin, commit, keep = Store._begin_and_insert, Store._commit, MemoryDatabase.keep
    writing: Sequence[Batch] = ()

    def beginning(store: Store, batches: Sequence[Batch]) -> None:
        nonlocal writing
        writing = batches
        recording.begins(store, batches)
        begin(store, batches)

    def keeping(store: MemoryDatabase, memories: Any) -> int:
        recording.take("before memories are kept")
        kept = keep(store, memories)
        recording.take("after memories are kept")
        return kept

    with mock.patch.object(Store, "_begin_and_insert", beginning), mock.patch.object(MemoryDatabase, "keep", keeping), \
            mock.patch.object(Store, "_commit", lambda store: recording.commits(lambda: commit(store), writing)):
        yield recording
    recording.keep()


@dataclass
class Replayed:
    """What came of a run that was resumed from a moment."""

    faults: list[str]
    resumed: bool
    in_flight: int
    excess: int


def go_on_from(recording: Recording, moment: Moment, known: Facts, process: Callable[[], int], *,
               same_calls: bool = True) -> Replayed:
    """Resumes the run from a moment, unless it had come to its end by then, and compares as `crash_harness` does."""
    home = recording.home
    recording.lay(moment)
    left = harness.at_death(recording.path, _fresh(home.with_name(f"{home.name}-death")))
    calls = harness.called(home)
    lives = [Life(-signal.SIGKILL, set(calls), 0, left)]
    resumed = left.outcome != "success"
    faults: list[str] = []
    if resumed:
        try:
            code = process()
        except Exception:
            return Replayed([f"{moment.what}: {traceback.format_exc()}"], True, 0, 0)
        lives.append(Life(code, set(harness.called(home)[len(calls):]), 0))
    faults += harness.faults(home, lives, resumed=resumed)
    faults += harness.others(home, lives, known) if same_calls else ()
    excess = sum(Counter(harness.called(home)).values()) - len(known.reserved)
    return Replayed([f"{moment.what}: {fault}" for fault in faults], resumed, len(left.reserved - left.settled), excess)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder
