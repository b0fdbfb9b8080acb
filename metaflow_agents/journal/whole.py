"""A file written whole or not at all, and one read that may be no file: no link is followed, no pipe waited for."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from metaflow_agents.journal.private import FILE

_PART = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_whole(path: Path, data: bytes, part: Path) -> None:
    """Writes under the temporary name `part` and renames it to `path`; nobody else may read it. Raises OSError; then `path` is
    as it was.

    A link at either name is replaced, and what it leads to is left alone.
    """
    with suppress(FileNotFoundError):
        part.unlink()
    try:
        with open(os.open(part, _PART, FILE), "wb") as file:
            file.write(data)
        part.replace(path)
    except OSError:
        with suppress(OSError):         # the first error is told
            part.unlink()
        raise


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file. Raises OSError, for a link, a pipe or a device too."""
    with open(os.open(path, _READ), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read()
