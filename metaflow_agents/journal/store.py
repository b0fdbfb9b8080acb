"""A journal's SQLite file: how events and blobs lie in it, and nothing about what they mean.

Format 2: `events(seq, kind, data)`, where data is the event's JSON without defaults, and `blobs(digest, packed, data)`, where
data stands as it is (`packed` 0), zlib-compressed (1), or as a difference from blobs that were stored before it or with it (2,
see `delta.py`). Format 1 knew no differences; a journal of it becomes one of format 2 with its first difference.
The header carries APPLICATION_ID and, as `user_version`, the format. While a run is open
the file is in WAL mode and every commit is synced; a clean close folds the WAL in and leaves one file. `making.py` lays it down.
What a killed process left in the middle of a write, or of a change of modes, the next who opens the file rolls back, who only
reads too.
Source: https://www.sqlite.org/wal.html, https://www.sqlite.org/pragma.html#pragma_application_id
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

from metaflow_agents.errors import JournalError, UsageError, did_you_mean
from metaflow_agents.journal.cache import BlobCache
from metaflow_agents.journal.delta import BEGINNING, Damaged, assembled, unpacked
from metaflow_agents.journal.delta_window import Window
from metaflow_agents.journal.private import tighten
from metaflow_agents.schema.model import digest as digest_of

APPLICATION_ID = 0x4D464A31  # "MFJ1"
FORMAT = 2
_PACK_FROM = 512
_PLAIN, _ZLIB, _DELTA = range(3)    # the column `packed`
_CACHE = 8 << 20                    # bytes of texts that were put together: most often the next that is read copies from the last
_RECENT = 256                       # blobs of an existing journal that those of this sitting may copy from
_RECENT_BYTES = 16 << 20
_WAIT = 10.0
_LEFT_BEHIND = ("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY", "SQLITE_READONLY_CANTINIT")
TABLES = ("CREATE TABLE events(seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, data TEXT NOT NULL)",
          "CREATE TABLE blobs(digest TEXT PRIMARY KEY, packed INTEGER NOT NULL, data BLOB NOT NULL)")

Row = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Batch:
    """What becomes durable together: rows of events (seq, kind, JSON) and blobs by digest."""

    rows: Sequence[Row]
    blobs: Mapping[str, bytes]


class Store:
    """The file, for one writer and for reading.

    One that is `fresh` was laid down by this process: what it is is not looked at again, and what reads it is opened when it is
    first read, since a short run seldom reads what it wrote itself.

    `write` belongs to one thread at a time; everything else may be called from any thread. Every error of SQLite comes out
    as JournalError that says what to do.
    """

    def __init__(self, path: Path, *, writable: bool, fresh: bool = False) -> None:
        if not path.is_file():
            raise unknown_run(path)
        self.path = path
        self._lock = Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._window: Window | None = None                      # once something is written
        self._format = FORMAT
        self._cache = BlobCache(_CACHE)
        self._closed = False
        if not path.stat().st_size:
            raise JournalError(f"{path} is empty: its process was killed, or its disk full, before anything was written; its name"
                               f" is free: `sop run FILE --name {path.stem}`")
        try:
            if not fresh:
                with self.translated("read"):
                    self._reader = self._connect_to_read()
                    self._check_format(self._reader)
            if writable:
                if not fresh:
                    tighten(path)
                with self.translated("open"):
                    self._writer = self._connect("rw")
                    _use_wal(self._writer)
        except BaseException:
            self.close()
            raise

    def write(self, batches: Sequence[Batch]) -> None:
        """Writes all batches in one synced transaction, or none of them. Raises JournalError."""
        with self.translated("write"):
            try:
                self._begin_and_insert(batches)
                self._commit()
            except BaseException:
                self._roll_back()
                raise

    def last(self) -> int:
        """Number of the last durable event; 0 in an empty journal."""
        with self.reading() as connection:
            found: int = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
        return found

    def page(self, kinds: Sequence[str], after: int, until: int, limit: int) -> list[Row]:
        """Up to `limit` rows with after < seq <= until, in order; of these kinds, or of all where none is named."""
        chosen = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        with self.reading() as connection:
            return connection.execute(
                f"SELECT seq, kind, data FROM events WHERE seq > ? AND seq <= ?{chosen} ORDER BY seq LIMIT ?",
                (after, until, *kinds, limit),
            ).fetchall()

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of these numbers, in order; those that are not there are left out."""
        with self.reading() as connection:
            return connection.execute(
                "SELECT seq, kind, data FROM events WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",
                (json.dumps(list(numbers)),)).fetchall()

    def blob(self, digest: str) -> bytes:
        """A blob's bytes, found to be what its digest says. Raises JournalError where it is missing or damaged."""
        with self.reading() as connection:
            return self._blob(connection, digest)

    def _blob(self, connection: sqlite3.Connection, digest: str) -> bytes:
        row = connection.execute("SELECT packed, data FROM blobs WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise JournalError(f"{self.path} holds no blob {digest}; {_MEND_DAMAGE}")
        packed, data = int(row[0]), bytes(row[1])
        try:
            if packed == _DELTA:
                data = assembled(data, lambda beginning: self._stored(connection, beginning))
            elif packed:
                data = unpacked(data)
        except (zlib.error, Damaged) as error:
            raise JournalError(f"{self.path} is damaged at blob {digest}: {error}; {_MEND_DAMAGE}") from error
        if digest_of(data) != digest:
            raise JournalError(f"{self.path} is damaged at blob {digest}: its bytes are others than were written; {_MEND_DAMAGE}")
        if packed == _DELTA:
            self._cache.put(digest[:BEGINNING], data)
        return data

    def _stored(self, connection: sqlite3.Connection, beginning: str) -> tuple[bool, bytes]:
        """What a difference copies from: a text, or a difference again. Raises Damaged, zlib.error."""
        if (data := self._cache.get(beginning)) is not None:
            return False, data
        row = connection.execute("SELECT packed, data FROM blobs WHERE digest >= ? AND digest < ?",
                                 (beginning, f"{beginning}g")).fetchone()
        if row is None:
            raise Damaged(f"it copies from the blob {beginning}…, which is not there")
        packed, data = row
        return packed == _DELTA, unpacked(data) if packed == _ZLIB else data

    def close(self) -> None:
        """Folds the WAL into the file, if this store wrote it, and closes. Reading still works, by a connection a call."""
        with self._lock:
            self._closed = True
            reader, self._reader = self._reader, None
            writer, self._writer = self._writer, None
        if reader is not None:
            reader.close()
        if writer is not None:
            # Where somebody else reads, or no space is left, the WAL stays beside the file with everything committed in it.
            with suppress(sqlite3.Error):
                writer.execute("PRAGMA busy_timeout=0")
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                # Only bytes of the header change, all in the file's first sector: a journal on the disk for them would guard
                # nothing, and be synced three times. The mode that the file says afterwards is the same.
                writer.execute("PRAGMA journal_mode=MEMORY")
            writer.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read from, for one short query; errors of SQLite come out as JournalError."""
        with self._lock, self.translated("read"):
            if self._reader is None and not self._closed:
                self._reader = self._connect_to_read()
            if self._reader is not None:
                yield self._reader
                return
            connection = self._connect_to_read()
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Turns an error of SQLite into a JournalError that says what happened to which run, and the mend."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(_explain(self.path, doing, error)) from error

    def _begin_and_insert(self, batches: Sequence[Batch]) -> None:
        writer = self._writing()
        writer.execute("BEGIN IMMEDIATE")
        if self._window is None:
            self._window = self._recent(writer)
        if insert(writer, batches, self._window) and self._format < FORMAT:
            writer.execute(f"PRAGMA user_version={FORMAT}")
            self._format = FORMAT

    def _commit(self) -> None:
        self._writing().execute("COMMIT")

    def _roll_back(self) -> None:
        self._window = None                                     # it knows texts that were not stored
        self._format = 0
        # After some errors SQLite has rolled back by itself, and a second time would hide the first error behind another.
        if self._writer is not None and self._writer.in_transaction:
            with suppress(sqlite3.Error):
                self._writer.execute("ROLLBACK")

    def _recent(self, connection: sqlite3.Connection) -> Window:
        """What a journal that was there holds last: a run that is gone on with repeats it."""
        window, left = Window(), _RECENT_BYTES
        last = connection.execute("SELECT digest FROM blobs ORDER BY rowid DESC LIMIT ?", (_RECENT,)).fetchall()
        for digest, in reversed(last):
            with suppress(JournalError):                        # who needs it hears of it
                data = self._blob(connection, digest)
                left -= len(data)
                if left < 0:
                    break
                window.add(digest, data)
        return window

    def _writing(self) -> sqlite3.Connection:
        if self._writer is None:
            raise JournalError(f"{self.path} is closed, or open for reading only; open it with Journal.open")
        return self._writer

    def _connect_to_read(self) -> sqlite3.Connection:
        """A connection that only reads. What a killed process left is rolled back first, by one that may write."""
        connection = self._connect("ro")
        try:
            connection.execute("PRAGMA schema_version").fetchone()
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorname not in _LEFT_BEHIND:
                raise
        except BaseException:
            connection.close()
            raise
        mending = self._connect("rw")
        try:
            mending.execute("PRAGMA schema_version").fetchone()
        finally:
            mending.close()
        return self._connect("ro")

    def _connect(self, mode: str) -> sqlite3.Connection:
        # Not bound to a thread: the journal opens it here and hands it to its writer thread; readers take turns by a lock.
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=_WAIT, isolation_level=None, check_same_thread=False
        )

    def _check_format(self, connection: sqlite3.Connection) -> None:
        marker = connection.execute("PRAGMA application_id").fetchone()[0]
        written = connection.execute("PRAGMA user_version").fetchone()[0]
        if marker != APPLICATION_ID:
            raise JournalError(f"{self.path} is a file of another program, not the journal of a run; move it out of the way")
        self._format = written
        if written > FORMAT:
            raise JournalError(
                f"{self.path} was written by a newer version of metaflow-agents (journal format {written}, this one reads up to"
                f" {FORMAT}); upgrade: pip install -U metaflow-agents"
            )
        connection.execute("SELECT seq FROM events LIMIT 1").fetchone()


class MemoryStore:
    """The same log without a file, for tests: it lives and dies with the process."""

    path = Path("in-memory")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._blobs: dict[str, bytes] = {}

    def write(self, batches: Sequence[Batch]) -> None:
        """Keeps all batches."""
        for batch in batches:
            self._blobs.update(batch.blobs)
            self._rows.extend(batch.rows)

    def last(self) -> int:
        """Number of the last event; 0 where there is none."""
        return len(self._rows)

    def page(self, kinds: Sequence[str], after: int, until: int, limit: int) -> list[Row]:
        """Up to `limit` rows with after < seq <= until, in order; of these kinds, or of all where none is named."""
        found: Iterator[Row] = (self._rows[place] for place in range(max(after, 0), min(until, len(self._rows))))
        return list(islice((row for row in found if not kinds or row[1] in kinds), limit))

    def blob(self, digest: str) -> bytes:
        """A blob's bytes. Raises JournalError where it is missing."""
        try:
            return self._blobs[digest]
        except KeyError:
            raise JournalError(f"the journal in memory holds no blob {digest}; append it with the event that names it") from None

    def close(self) -> None:
        """Nothing to close; reading still works."""


def insert(connection: sqlite3.Connection, batches: Sequence[Batch], window: Window) -> bool:
    """The rows and blobs of batches, within a transaction of the caller's. Whether there is a difference among the blobs."""
    blobs = {digest: data for batch in batches for digest, data in batch.blobs.items()}
    packed = [(digest, *_packed(digest, data, window)) for digest, data in blobs.items()]
    if packed:
        connection.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", packed)
    connection.executemany("INSERT INTO events VALUES (?, ?, ?)", (row for batch in batches for row in batch.rows))
    return any(how == _DELTA for _, how, _ in packed)


def _packed(digest: str, data: bytes, window: Window) -> tuple[int, bytes]:
    if (difference := window.add(digest, data)) is not None:
        return _DELTA, difference
    small = zlib.compress(data, 1) if len(data) > _PACK_FROM else data
    return (_ZLIB, small) if len(small) < len(data) else (_PLAIN, data)


def _use_wal(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


_MEND_DAMAGE = "restore the file from a copy, or start a new run (`sop run … --from` takes over nothing from a damaged one)"


def _explain(path: Path, doing: str, error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", None) or ""
    again = f"then `sop resume {path.stem}`"
    if name == "SQLITE_FULL":
        mend = f"the disk is full: free space on {path.parent}, {again}"
    elif name.startswith("SQLITE_READONLY"):
        mend = f"the file is read-only: make it and its folder writable, {again}"
    elif name.startswith("SQLITE_IOERR"):
        mend = f"the disk failed: look at {path.parent} (space, quota, hardware), {again}"
    elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        mend = f"another program holds the file: close it, {again}"
    elif name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        mend = f"the file can't be opened: look at its permissions and its folder's, {again}"
    elif name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "no such table" in str(error):
        mend = f"the file is damaged, or no journal: {_MEND_DAMAGE}"
    else:
        mend = f"this is unexpected ({name or type(error).__name__}): look at the file, {again}"
    return f"can't {doing} the journal {path}: {error}; {mend}"


def unknown_run(path: Path) -> UsageError:
    """The error of a run that is not there; it names the runs that are."""
    try:
        runs = sorted(found.stem for found in path.parent.glob(f"*{path.suffix}"))
    except OSError:
        runs = []
    return UsageError(f"no run `{path.stem}` in {path.parent}; {did_you_mean(path.stem, runs)}")
