"""Stopping a run: SIGINT to the process that holds its lock, as Ctrl-C in its terminal would.

The lock file says which process that is. It is believed only where somebody does hold the lock, and where this can be seen
(Linux) only of a process that has this very file open; the signal then goes by a descriptor of the process, not by its number,
which another process may have got meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from metaflow_agents.errors import UsageError
from metaflow_agents.journal.run_summary import holder

_OPEN = Path("/proc")


def stop(journal: Path) -> None:
    """Returns once the process has its signal. Raises UsageError where nobody has the run open, or it can't be told who."""
    name, lock = journal.stem, journal.with_name(f"{journal.name}.lock")
    number = holder(journal)
    if number is None:
        raise UsageError(f"run `{name}` is not under way: there is nothing to stop")
    if number == os.getpid():
        raise UsageError(f"run `{name}` is open in this server, which answers a question of it: try again in a moment")
    with _process(number) as descriptor:
        if not _is_held(lock):
            raise UsageError(f"run `{name}` is not under way: nobody holds {lock}")
        _look(name, number, lock)
        try:
            if descriptor is None:
                os.kill(number, signal.SIGINT)
            else:
                signal.pidfd_send_signal(descriptor, signal.SIGINT)
        except ProcessLookupError:
            raise UsageError(f"run `{name}` is not under way: process {number} has ended") from None
        except PermissionError:
            raise UsageError(f"run `{name}` is open in process {number} of another user: stop it there") from None


@contextmanager
def _process(number: int) -> Iterator[int | None]:
    """A descriptor of a process; None where the system has none."""
    descriptor = None
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):                     # it has ended, which is told by who sends the signal; or an old kernel
            descriptor = os.pidfd_open(number)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_held(lock: Path) -> bool:
    """Whether some process holds the lock."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)                        # and the lock with it
    return False


def _look(name: str, number: int, lock: Path) -> None:
    """Raises UsageError where the process does not have the lock file open, or has several runs open."""
    folder = _OPEN / str(number) / "fd"
    if not _OPEN.is_dir():
        return
    try:
        there = list(folder.iterdir())
    except OSError as error:
        raise UsageError(f"run `{name}` is open in process {number}, of which nothing can be seen ({error.strerror}): stop it "
                         "there") from None
    open_files = []
    for one in there:
        with suppress(OSError):                     # closed since
            open_files.append((one, one.stat(), os.readlink(one)))
    wanted = lock.stat()
    if not any(os.path.samestat(found, wanted) for _, found, _ in open_files):
        raise UsageError(f"{lock} names process {number}, which does not have it open: stop the run where it was begun")
    others = {target for _, _, target in open_files if target.endswith(".db.lock")}
    if len(others) > 1:
        raise UsageError(f"process {number} has {len(others)} runs open, which a signal would all stop: stop it there")
