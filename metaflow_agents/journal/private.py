"""Files that hold prompts and answers: readable by who made them and by nobody else, whatever the umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
_OTHERS = 0o077
_BESIDE = ("", "-wal", "-shm", "-journal")


def make_private(path: Path) -> None:
    """A new, empty file that nobody else may read. Raises OSError, where the name is taken too."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE)
    try:
        os.fchmod(descriptor, FILE)                 # whatever the umask took away: SQLite gives its own files the same mode
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """A folder of ours, which nobody else may look into; one that is there stays as it is. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER)
        return
    if not folder.is_dir():
        raise NotADirectoryError(20, "a file stands where a folder is needed", str(folder))


def tighten(database: Path) -> None:
    """Takes a database of an older version, and what SQLite keeps beside it, from others. What is not ours stays as it is."""
    for name in _BESIDE:
        path = database.with_name(database.name + name)
        with suppress(OSError):                     # not there, or not ours: `sop doctor` tells of it
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & _OTHERS:
                os.chmod(path, FILE)


def open_to_others(folder: Path) -> Iterator[Path]:
    """The files directly in a folder that others may read or write."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & _OTHERS:
                yield path
