"""A journal comes into being whole or not at all: under another name in its folder, in WAL mode, synced, then renamed.

What it begins with is in it before it has its name. So a process that is killed leaves no journal, or one that can be resumed.
See docs/decisions/0053.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.delta_window import Window
from metaflow_agents.journal.private import make_private
from metaflow_agents.journal.store import APPLICATION_ID, FORMAT, TABLES, Batch, Store, insert

_BESIDE = ("-wal", "-shm", "-journal")          # what SQLite keeps beside a file


def make(path: Path, batch: Batch) -> None:
    """Lays down a journal that holds a first batch. What stood under its name is replaced.

    The caller holds the lock. Raises JournalError where the folder can't be written.
    """
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        for table in TABLES:
            connection.execute(table)
        insert(connection, [batch], Window())
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")

    _lay_down(path, fill)


def copy(source: Path, target: Path, until: int) -> None:
    """Lays down a journal that holds the events of another up to number `until`, and its blobs.

    The caller holds the lock of `target`. Works while another process writes the source. Raises UsageError, JournalError.
    """
    store = Store(source, writable=False)

    def fill(connection: sqlite3.Connection) -> None:
        with store.reading() as reader:
            reader.backup(connection)
        connection.execute("PRAGMA journal_mode=MEMORY")            # the mode of the source came with it
        connection.execute("DELETE FROM events WHERE seq > ?", (until,))

    try:
        _lay_down(target, fill)
    finally:
        store.close()


def _lay_down(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    fresh = path.with_name(f"{path.name}.new")
    try:
        _remove(fresh)                                              # of a process that was killed here
        make_private(fresh)
        try:
            connection = sqlite3.connect(fresh, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous=OFF")        # nobody sees it before it is synced below
                connection.execute("PRAGMA journal_mode=MEMORY")
                fill(connection)
                connection.execute("PRAGMA journal_mode=WAL")
            finally:
                connection.close()
            _sync(fresh)
            _remove(path)           # with its log, which SQLite would replay onto the new one; what it is of goes first
            fresh.rename(path)
            _sync(path.parent)
        except BaseException:
            with suppress(OSError):                                 # the first error is told
                _remove(fresh)
            raise
    except (OSError, sqlite3.Error) as error:
        raise JournalError(f"can't make a journal at {path}: {error}; make its folder writable, with free space") from error


def _remove(path: Path) -> None:
    for name in ("", *_BESIDE):
        path.with_name(path.name + name).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    # The name of a new file is durable only once its folder is.
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
