"""Journals, followed while other processes write them: what is new in one is read once, whoever looks at it.

A journal is opened for reading only, for as long as its new rows take, and not at all while its files have not changed: a reader
that stays would keep the run from folding its write-ahead log in at its end.
"""

from __future__ import annotations

import math
import os
import time
from copy import deepcopy
from pathlib import Path
from threading import Lock

from metaflow_agents.journal.run_summary import RawJournal, holder
from metaflow_agents.journal.store import unknown_run
from metaflow_agents.views.ui.overview import Stands
from metaflow_agents.views.ui.progress import Progress

_TICK = 2.0                         # seconds: files that were written that lately are read again, whatever their times say
_STRIDE = 2000                      # events between two states that are kept
_KEPT = 64                          # such states of a run; then every second one goes

Signature = tuple[tuple[int, int, int], ...]


def signature(journal: Path) -> Signature:
    """What changes when a journal is written: file, size and time of it and of its write-ahead log. Empty where it is gone."""
    found = []
    for path in (journal, journal.with_name(f"{journal.name}-wal")):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def settled(mark: Signature) -> bool:
    """Whether a journal whose files have this signature was written long enough ago for their times to tell the next change."""
    return bool(mark) and max(when for _, _, when in mark) < time.time_ns() - _TICK * 1e9


class JournalFold:
    """One run's progress. `update` may be called from any thread; whoever reads `progress` and `stands` holds `lock`.

    `keeps`: whether older states are kept, so that `at` folds no more than the events between two of them.
    """

    def __init__(self, path: Path, *, keeps: bool = True) -> None:
        self.path, self.lock = path, Lock()
        self._keeps = keeps
        self._begin()

    def _begin(self) -> None:
        self.progress = Progress()
        self.stands = Stands("killed", "", 0.0)
        self._signature: Signature = ()
        self._looked = -math.inf
        self._kept: list[Progress] = []
        self._stride = _STRIDE

    def update(self, since: float = math.inf) -> None:
        """Reads what is new, unless it was looked after `since`, a time of the monotonic clock. Raises UsageError where the run
        is gone, JournalError.
        """
        with self.lock:
            now = time.monotonic()
            if self._looked > since:
                return
            mark = signature(self.path)
            if not mark:
                self._begin()
                raise unknown_run(self.path)
            if mark != self._signature or not settled(mark):
                with RawJournal(self.path) as journal:
                    if journal.last() < self.progress.seq or (self._signature and mark[0][0] != self._signature[0][0]):
                        self._begin()                           # another run of that name
                    self.read(journal)
                self._signature = mark
            self.stands = self._standing()
            self.told()
            self._looked = now                                  # what is written while it is read may be missed

    def read(self, journal: RawJournal) -> None:
        """Takes the events that are new."""
        for seq, event in journal.events(after=self.progress.seq):
            if self._keeps and seq - (self._kept[-1].seq if self._kept else 0) > self._stride:
                self._keep()
            self.progress.take(seq, event)

    def told(self) -> None:
        """Called with the lock held whenever it was looked whether something is new."""

    def _keep(self) -> None:
        self._kept.append(deepcopy(self.progress))
        if len(self._kept) > _KEPT:
            del self._kept[::2]
            self._stride *= 2

    def _standing(self) -> Stands:
        now, name, progress = time.time(), self.path.stem, self.progress
        folder = str(self.path.parent.parent / name)
        if holder(self.path) not in (None, os.getpid()):        # this process has it open for a moment, to put an answer in
            return Stands("running", "", now, name, folder)
        return Stands(progress.outcome or "killed", progress.reason, now, name, folder)

    def at(self, seq: int) -> tuple[Progress, Stands]:
        """How the run stood after an event."""
        with self.lock:
            if seq >= self.progress.seq:
                return deepcopy(self.progress), self.stands
            before = next((kept for kept in reversed(self._kept) if kept.seq <= seq), None)
            found, now = deepcopy(before) or Progress(), self.stands
        with RawJournal(self.path) as journal:
            for number, event in journal.events(after=found.seq, until=seq):
                found.take(number, event)
        return found, Stands(found.outcome or "running", found.reason, found.clock.latest, now.run, now.folder)
