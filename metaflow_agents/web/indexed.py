"""What is known of the runs whose pages are read, by event: kept between requests, brought up to date by what is new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import RLock

from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.views.ui.conversation import Conversations
from metaflow_agents.views.ui.files import FileHistory
from metaflow_agents.views.ui.index import RunIndex
from metaflow_agents.views.ui.shown import Showing
from metaflow_agents.web.opened import OpenRun

_RUNS = 6                           # indexes that are held: one of 50,000 events takes some 20 MB


class _Kept:
    """One run's index, and the history of its files once somebody asks; whoever reads or changes them holds the lock."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.index: RunIndex | None = None
        self.files = FileHistory()
        self._first: object = None

    def update(self, run: OpenRun) -> RunIndex:
        """Takes what is new. A run of that name that began anew, or goes on with another program, has another index."""
        first = next(run.journal.events(until=1), None)
        index = self.index
        if index is None or first != self._first or run.journal.last() < index.seq or index.program != run.program:
            index, self._first, self.files = RunIndex(run.program), first, FileHistory()
        for seq, event in run.journal.events(after=index.seq):
            index.take(seq, event)
        self.index = index
        return index


@dataclass(frozen=True)
class ReadRun:
    """A run that is open, with its index up to date."""

    run: OpenRun
    index: RunIndex
    kept: _Kept

    @property
    def journal(self) -> RawJournal:
        """Its rows and blobs."""
        return self.run.journal

    @cached_property
    def alive(self) -> bool:
        """Whether a process carries it out now."""
        return self.journal.standing()[0] == "running"

    @cached_property
    def conversations(self) -> Conversations:
        """What was shown and said."""
        return Conversations(self.index, self.journal)

    @cached_property
    def showing(self) -> Showing:
        """What its artifacts hold."""
        return Showing(self.index.versions, self.run.program, self.journal.blob, self.run.name)

    def files(self) -> FileHistory:
        """The history of its files, up to date."""
        self.kept.files.update(self.journal, self.index.seq)
        return self.kept.files


class Indexes:
    """The runs that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = RLock()

    def holds(self, name: str) -> bool:
        """Whether the run was read lately, so that its pages want to know what is new."""
        with self._lock:
            return name in self._kept

    @contextmanager
    def of(self, run: OpenRun) -> Iterator[ReadRun]:
        """The run with its index, which is nobody else's meanwhile. Raises JournalError."""
        with self._lock:
            kept = self._kept.setdefault(run.name, _Kept())
            self._kept.move_to_end(run.name)
            while len(self._kept) > _RUNS:
                self._kept.popitem(last=False)
        with kept.lock:
            yield ReadRun(run, kept.update(run), kept)
