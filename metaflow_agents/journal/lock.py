"""The lock that keeps a run in one process: `flock` on a file beside the journal, which the kernel gives back at death.

The journal's own file can't carry it: closing any descriptor of that file would drop SQLite's locks on it (POSIX).
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from metaflow_agents.errors import JournalError, RunBusy

# A command that the holder was starting when it was killed shares the lock until it has become the command.
_GRACE = 2.0
_POLL = 0.01
_held: WeakSet[RunLock] = WeakSet()
_hooked = False


class RunLock:
    """Holds the run from construction to `release()`.

    Raises RunBusy, with the process that holds it, where the run is open already (in this process too),
    and JournalError where the lock file can't be made.
    """

    def __init__(self, journal: Path) -> None:
        self.path = journal.with_name(journal.name + ".lock")
        self._fd: int | None = _acquire(self.path, journal.stem)
        _leave_to_parent_at_fork()
        _held.add(self)

    def release(self) -> None:
        """Removes the lock file and gives the run free. Calling it again does nothing."""
        if self._fd is None:
            return
        # Removed while it is still held: who waits for it sees, once it has it, that the name is gone, and tries again.
        self.path.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Closes the descriptor only: what a forked child does with the lock of its parent."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def refuse_busy(journal: Path) -> None:
    """Raises RunBusy where the run is open already, as `RunLock` does, and holds nothing afterwards."""
    if journal.with_name(journal.name + ".lock").exists():          # else nobody holds it, and nobody is disturbed
        RunLock(journal).release()


def _acquire(path: Path, run: str) -> int:
    deadline = time.monotonic() + _GRACE
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise JournalError(f"can't open the lock {path}: {error.strerror}; "
                               "it must be a file in a folder that can be written") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            if _is_dead(holder) and time.monotonic() < deadline:
                time.sleep(_POLL)
                continue
            by = f"process {holder}" if holder else "another process"
            raise RunBusy(f"run `{run}` is open in {by}; wait until it ends, or stop it there, then try again") from None
        except OSError as error:
            os.close(fd)
            raise JournalError(f"can't lock {path}: {error.strerror}; lay runs on a file system with locks") from error
        if _is_at(fd, path):
            with suppress(OSError):     # who holds it is told as a courtesy: on a full disk the lock holds without
                os.ftruncate(fd, 0)
                os.pwrite(fd, str(os.getpid()).encode(), 0)
            return fd
        os.close(fd)  # its holder removed the name between our `open` and our lock: this descriptor guards nothing


def _is_dead(holder: str) -> bool:
    if not holder.isdigit():
        return False
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass                            # somebody else's, and alive
    return False


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _leave_to_parent_at_fork() -> None:
    """A lock by `flock` is shared with a forked child, and would outlive its holder there: children let go of theirs."""
    global _hooked
    if not _hooked:
        os.register_at_fork(after_in_child=_forget_all)
        _hooked = True


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()
