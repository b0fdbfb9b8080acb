"""A run's append-only log: an append returns once its events are durable.

    async with Journal.create(path) as journal:
        await journal.append(Committed(...), blobs={digest: data})

What is handed over is folded into the run's state at once, and queued to one writer thread, which writes all that wait in one
synced transaction. What is durable comes back to the event loop, where the listeners hear of it, in the order of the calls.
So the state may be ahead of the disk, by what lies in the queue: whoever acts on it outside of this process (asks a model, runs
a command, writes a file) appends or syncs first, and what it acted on is durable then. See docs/decisions/0018.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar, get_args, overload

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from metaflow_agents.errors import JournalError, UsageError, raised
from metaflow_agents.errors.encodable import all_encodable
from metaflow_agents.journal.cache import BlobCache
from metaflow_agents.journal.lock import RunLock
from metaflow_agents.journal.making import copy, make
from metaflow_agents.journal.private import make_folder
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.store import Batch, MemoryStore, Row, Store, unknown_run
from metaflow_agents.journal.writer import WriteJob, Writer
from metaflow_agents.schema.event import Event
from metaflow_agents.schema.model import Value

_KINDS: dict[str, type[Any]] = {cls.model_fields["kind"].default: cls for cls in get_args(get_args(Event)[0])}
_NONE: Mapping[str, bytes] = MappingProxyType({})
_BEGINNING = ("run_opened", "committed")
_PAGE = 512
_CACHE = 8 * 1024 * 1024

Listener = Callable[[int, Event], None]
E = TypeVar("E", bound=Value)


class Journal:
    """One run's log. Make it by `create`, `open`, `read` or `in_memory`; use it as a context manager.

    `listeners` are called with each event and its number, on the event loop, once the whole append is durable; `early` ones
    when it is handed over and folded. An error that one raises goes to whoever appended, and the journal takes no more: a run
    must not go on half told.
    """

    def __init__(self, store: Store | MemoryStore, lock: RunLock | None = None, *, writable: bool = True,
                 known: Journal | None = None, begun: Sequence[tuple[int, Event]] | None = None) -> None:
        self.listeners: list[Listener] = []
        self.early: list[Listener] = []
        self._store, self._lock, self._writable = store, lock, writable
        self._process = os.getpid()
        self._recent = BlobCache(_CACHE)
        self._pending: dict[str, bytes] = {}
        self._writer: Writer | None = None
        self._at_once: deque[WriteJob] = (
            deque()
        )  # in memory only: a listener may post while others still hear of what came before
        self._draining = False
        self._closed = False
        self._failure: Exception | None = None
        self._told = False
        self._state: RunState | None = None
        self._folded: Row | None = None             # the last event that the state was read up to, as it is written
        if begun is not None:                       # all that is in it: it was written by this process a moment ago
            self._last, self._state = len(begun), RunState()
            for seq, event in begun:
                self._state.apply(seq, event)
        else:
            self._last = store.last()
        if writable and begun is None:
            self._state = self._fold(known)
        self._next = self._last + 1
        self.found = self._last                     # events that lay there before whoever opened it
        # How many of these stood in what it was opened with already; 0 where that was read anew.
        self.known = 0 if known is None or known._folded is None or self._state is not known._state else known._folded[0]

    @classmethod
    def create(cls, path: Path, first: Callable[[], Sequence[Event]] = tuple, blobs: Mapping[str, bytes] = _NONE) -> Self:
        """A new run's journal, locked for this process, which holds what `first` gives before anybody sees it.

        A journal of that name that holds no more than its beginning, since its process was killed then, is replaced.
        Raises UsageError where the run exists, RunBusy, JournalError.
        """
        try:
            make_folder(path.parent)
        except OSError as error:
            raise JournalError(f"can't make the folder {path.parent}: {error.strerror}; choose another one") from error
        lock = RunLock(path)
        try:
            _refuse_begun(path)
            events = [(seq, *written) for seq, written in enumerate(map(_written_form, _stamped(first())), 1)]
            make(path, Batch([(seq, event.kind, form) for seq, event, form in events], blobs))
            journal = cls._on_file(path, lock, begun=[(seq, event) for seq, event, _ in events])
        except BaseException:
            lock.release()
            raise
        journal.found = 0
        return journal

    @classmethod
    def open(cls, path: Path, known: Journal | None = None) -> Self:
        """An existing run's journal for writing: locked, its events folded. Raises UsageError, RunBusy, JournalError.

        `known` is the same file as somebody read it before: its state goes on from there, and only what came since is folded.
        """
        if not path.is_file():
            raise unknown_run(path)
        lock = RunLock(path)
        try:
            return cls._on_file(path, lock, known)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def read(cls, path: Path) -> Self:
        """An existing run's journal for reading, without a lock, also while another process writes it.

        `state` is folded when it is first asked for. Raises UsageError where there is no such run, JournalError.
        """
        return cls(Store(path, writable=False), writable=False)

    @classmethod
    def in_memory(cls) -> Self:
        """A journal without a file, for tests: every append applies at once."""
        return cls(MemoryStore())

    @classmethod
    def copy(cls, source: Path, target: Path, until: int) -> Self:
        """A new run that holds the events of another up to number `until`, open for writing.

        Raises UsageError where the target exists or the source does not, RunBusy, JournalError.
        """
        if not source.is_file():
            raise unknown_run(source)
        lock = RunLock(target)
        try:
            if target.exists():
                raise UsageError(f"run `{target.stem}` exists already; give the new run another name")
            copy(source, target, until)
            return cls._on_file(target, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _on_file(cls, path: Path, lock: RunLock, known: Journal | None = None,
                 begun: Sequence[tuple[int, Event]] | None = None) -> Self:
        store = Store(path, writable=True, fresh=begun is not None)
        try:
            return cls(store, lock, known=known, begun=begun)
        except BaseException:
            store.close()
            raise

    @property
    def path(self) -> Path:
        """The file; `in-memory` where there is none."""
        return self._store.path

    @property
    def last(self) -> int:
        """Number of the last event that is durable; 0 in an empty journal."""
        return self._last if self._writable else self._store.last()

    @property
    def state(self) -> RunState:
        """How the run stands after all that was handed over; of a journal that is only read, when this was first asked for."""
        if self._state is None:
            self._state = self._fold()
        return self._state

    async def __aenter__(self) -> Self:
        if self._writable and isinstance(self._store, Store) and self._writer is None:
            self._writer = Writer(self._store, self._written)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        if self._writable and isinstance(self._store, Store):
            raise UsageError("a journal that is open for writing is entered with `async with`")
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._let_go()

    async def append(self, *events: Event, blobs: Mapping[str, bytes] = _NONE) -> tuple[int, ...]:
        """Writes events and the blobs (digest → bytes) that they name, all or none, and returns their numbers.

        When it returns they and all that was handed over before are durable and told to the listeners. A caller that is
        cancelled while it waits changes nothing: what was handed over is written. Raises JournalError where it can't be.
        """
        if self._writer is None:
            return self._hand_over(events, blobs, None)
        waiter: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self._hand_over(events, blobs, waiter)
        return await waiter

    def post(self, *events: Event, blobs: Mapping[str, bytes] = _NONE) -> None:
        """Like `append`, without waiting: it is written soon, or with what is appended next, and never after that.

        What fails is raised by the next append, `sync` or `close`.
        """
        self._hand_over(events, blobs, None)

    async def sync(self) -> None:
        """Returns when everything that was handed over before is durable. Raises JournalError."""
        if self._last + 1 < self._next or self._failure is not None:
            await self.append()

    async def close(self) -> None:
        """Writes what is queued, leaves one file, gives the run free. Raises JournalError where nobody was told of a failure."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._writer is not None:
                await self._writer.stop()
        finally:
            self._let_go()
            self.listeners.clear()                      # some of them hold it: nobody is told of anything any more
        if self._failure is not None and not self._told:
            raise self._refusal()

    def blob(self, digest: str) -> bytes:
        """A blob by its digest; also one whose append is still being written. Raises JournalError: unknown, or damaged."""
        data = self._pending.get(digest)
        if data is None:
            data = self._recent.get(digest)
        if data is None:
            data = self._store.blob(digest)
            self._recent.put(digest, data)
        return data

    @overload
    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Event]]: ...

    @overload
    def events(self, *kinds: type[E], after: int = 0, limit: int | None = None) -> Iterator[tuple[int, E]]: ...

    def events(self, *kinds: type[Any], after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Any]]:
        """Events with their numbers, in order: of these kinds (all, where none is named), past number `after`, `limit` at most.

        Streams by pages, up to `last` as it is at the first; holds nothing open in between. Raises JournalError.
        """
        names = [kind.model_fields["kind"].default for kind in kinds]
        until = self.last
        left = until if limit is None else limit
        while left > 0:
            size = min(left, _PAGE)
            rows = self._store.page(names, after, until, size)
            for row in rows:
                yield row[0], self._parse(row)
            if len(rows) < size:
                return
            after, left = rows[-1][0], left - size

    def _fold(self, known: Journal | None = None) -> RunState:
        state, read = RunState(), 0
        if known is not None and known._folded is not None and self._row(known._folded[0]) == known._folded:
            state, read = known.state, known._folded[0]
        expected = read + 1
        for seq, event in self.events(after=read):
            if seq != expected:
                raise JournalError(f"{self.path} is damaged: event {expected} is missing; restore the file from a copy")
            state.apply(seq, event)
            expected += 1
        if not self._writable:
            self._folded = self._row(expected - 1)
        return state

    def _row(self, seq: int) -> Row | None:
        return next(iter(self._store.page((), seq - 1, seq, 1)), None)

    def _parse(self, row: Row) -> Any:
        seq, kind, data = row
        try:
            return _KINDS[kind].model_validate_json(data)
        except (KeyError, ValidationError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "there is no such kind of event"
            raise JournalError(
                f"{self.path} is damaged, or of another version, at event {seq}: `{kind}` is not readable: {why};"
                " restore the file from a copy, or use the version of metaflow-agents that wrote it"
            ) from error

    def _hand_over(
        self, events: Sequence[Event], blobs: Mapping[str, bytes], waiter: asyncio.Future[tuple[int, ...]] | None
    ) -> tuple[int, ...]:
        self._admit()
        written = [_written_form(event) for event in _stamped(events)]
        numbered = list(enumerate((event for event, _ in written), self._next))
        rows = [(seq, event.kind, form) for (seq, event), (_, form) in zip(numbered, written, strict=True)]
        job = WriteJob(Batch(rows, dict(blobs)), numbered, waiter)
        self._next += len(numbered)
        self._pending.update(job.batch.blobs)
        try:
            for seq, event in numbered:
                self.state.apply(seq, event)
            _tell(self.early, numbered)
        except BaseException as error:                  # an interrupt too: past it there would be a gap in the numbers
            self._failure = error if isinstance(error, Exception) else JournalError(
                f"{self.path} takes no more: {raised(error)} while events were folded; `sop resume` goes on from what it holds")
            if isinstance(error, Exception):
                raise self._refusal() from error        # what can't be folded is not written either
            raise
        if self._writer is not None:
            self._writer.put(job)
        else:
            self._apply_at_once(job)
        return tuple([seq for seq, _ in numbered])

    def _admit(self) -> None:
        if self._failure is not None:
            raise self._refusal()
        if os.getpid() != self._process:
            raise JournalError(f"{self.path} was opened by process {self._process}, before a fork; only that one may append")
        if self._closed or not self._writable:
            why = "is closed" if self._closed else "is open for reading only"
            raise JournalError(f"{self.path} {why}; open it with Journal.open to append")
        if self._writer is None and isinstance(self._store, Store):
            raise JournalError(f"{self.path} takes appends inside `async with journal:` only")

    def _apply_at_once(self, job: WriteJob) -> None:
        self._at_once.append(job)
        if self._draining:
            return
        self._draining = True
        try:
            while self._at_once:
                following = self._at_once.popleft()
                self._store.write([following.batch])
                self._written([following], None)
        finally:
            self._draining = False
        if self._failure is not None:
            raise self._refusal()

    def _written(self, jobs: Sequence[WriteJob], error: Exception | None) -> None:
        if error is not None and self._failure is None:
            self._failure = error
        for job in jobs:
            if self._failure is None:
                self._settle(job)
            self._answer(job)

    def _settle(self, job: WriteJob) -> None:
        for digest, data in job.batch.blobs.items():
            self._pending.pop(digest, None)
            self._recent.put(digest, data)
        if job.events:
            self._last = job.events[-1][0]
        try:
            _tell(self.listeners, job.events)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:                  # CancelledError too: else `append` never returns
            # Told to the appender below, and to everybody after: subscribers may now lack a part of the log.
            self._failure = error if isinstance(error, Exception) else JournalError(
                f"{self.path} takes no more: {raised(error)} while events were told; `sop resume` goes on from what it holds")

    def _answer(self, job: WriteJob) -> None:
        if job.waiter is None or job.waiter.done():
            return
        if self._failure is None:
            job.waiter.set_result(tuple(seq for seq, _ in job.events))
        else:
            job.waiter.set_exception(self._refusal())

    def _refusal(self) -> JournalError:
        # A new one for each who is told: an exception that several tasks raise would gather all their tracebacks.
        self._told = True
        known = isinstance(self._failure, JournalError)
        why = "" if self._failure is None else raised(self._failure)
        message = str(self._failure) if known else f"{self.path} takes no more: {why} while events were told"
        refusal = JournalError(message)
        refusal.__cause__ = self._failure
        return refusal

    def _let_go(self) -> None:
        self._pending.clear()
        self._store.close()
        if self._lock is not None:
            self._lock.release()


def _refuse_begun(path: Path) -> None:
    """Raises UsageError where a run has that name already: more is in its journal than what a run begins with, or it branched off
    from another. Raises JournalError where what is there is no journal.
    """
    if not path.exists() or not path.stat().st_size:
        return
    store = Store(path, writable=False)
    try:
        rows = store.page((), 0, store.last(), len(_BEGINNING) + 1)
        opened = [_KINDS[kind].model_validate_json(data) for _, kind, data in rows if kind == _BEGINNING[0]]
        own = not opened or opened[0].run == path.stem
    except ValidationError:
        own = False
    finally:
        store.close()
    if not own or [kind for _, kind, _ in rows] not in ([], list(_BEGINNING)):
        raise UsageError(f"run `{path.stem}` exists already; give another name, or go on with it: `sop resume {path.stem}`")


def _stamped(events: Sequence[Event]) -> Iterator[Event]:
    now = time.time()
    return (event if event.at else event.model_copy(update={"at": now}) for event in events)


def _tell(listeners: Sequence[Listener], events: Sequence[tuple[int, Event]]) -> None:
    for seq, event in events:
        for listener in tuple(listeners):
            listener(seq, event)


def _written_form(event: E) -> tuple[E, str]:
    """An event and its JSON. Where a text of it holds half a surrogate pair, it is the event with that written as an escape."""
    try:
        return event, event.model_dump_json(by_alias=True, exclude_defaults=True)
    except PydanticSerializationError:
        event = type(event).model_validate(all_encodable(event.model_dump()))
        return event, event.model_dump_json(by_alias=True, exclude_defaults=True)
