"""How much a confined command may take, and the watchdog that holds what the kernel does not hold for a whole tree."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from metaflow_agents.sandbox.places import in_memory

_ENDING = 16                # processes and threads that may be about to end at once
_PAUSE = 0.05               # seconds between two looks at the processes
_DISK_PAUSE = 0.25          # and at the disk; longer where a look takes long, so that it costs a twentieth at most
_DISK_SHARE = 20
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Of one command and all that it starts. `memory` (of the tree), `disk` (of the copy), `tmp` (of `/tmp`), `shm` and
    `file` (the largest one) are in bytes; `seconds` of wall time hold where the caller gives none; `cpu` is in seconds of
    each process; `processes` counts threads too; `open_files` are those of a process, `descriptors` those of the tree, `sockets`
    those of its network; `entries` counts the files and folders of the copy, of `/tmp` and of `/dev/shm`.
    """

    seconds: float = 600.0
    cpu: int = 900
    memory: int = 2048 * _MB
    processes: int = 512
    open_files: int = 1024
    descriptors: int = 16_384
    sockets: int = 1024
    file: int = 256 * _MB
    disk: int = 1024 * _MB
    entries: int = 100_000
    tmp: int = 256 * _MB
    shm: int = 64 * _MB

    def in_shell(self, seconds: float | None) -> str:
        """The lines of a POSIX shell that lay them on itself, and on all that it becomes and starts. `seconds`: of wall time
        that the caller gives, which a process may also spend on the processor.

        It is done inside, as the processes of a user are counted there on their own (since Linux 5.14; before, the kernel
        counts all that the user runs anywhere, so only the watchdog does). `-d` stops a process that grabs faster than the
        watchdog looks; the address space is left alone, as many programs reserve far more than they use.
        """
        cpu = max(self.cpu, 0 if seconds is None else int(seconds) + 1)
        wanted = [
            ("-St", resource.RLIMIT_CPU, cpu, 1),
            ("-Ht", resource.RLIMIT_CPU, cpu + 2, 1),
            ("-d", resource.RLIMIT_DATA, 2 * self.memory, 1024),
            ("-f", resource.RLIMIT_FSIZE, self.file, 512),
            ("-n", resource.RLIMIT_NOFILE, self.open_files, 1),
            ("-c", resource.RLIMIT_CORE, 0, 512),
        ]
        lines = [f"ulimit {option} {_at_most(what, most) // unit} || exit 125" for option, what, most, unit in wanted]
        if _kernel() >= (5, 14):                            # -u of bash and busybox is -p of dash
            most = _at_most(resource.RLIMIT_NPROC, self.processes)
            lines.append(f"ulimit -u {most} 2>/dev/null || ulimit -p {most} || exit 125")
        return "\n".join(lines)


class Watchdog:
    """Looks after the tree below a process, the folders that it writes to, and what it keeps in the kernel.

    `counted`: the kernel holds the tree's memory and processes already; then only files and sockets are looked at. `mounts`: file
    systems that are its alone, as it sees them. `others`: of a tree without namespaces, how many processes and threads of it are
    not the command's; its network is this machine's, so its sockets are not counted.
    """

    def __init__(self, limits: SandboxLimits, pid: int, folders: Sequence[Path], *, counted: bool = False,
                 mounts: Sequence[str] = (), others: int | None = None) -> None:
        self._limits, self._pid, self._folders, self._counted, self._mounts = limits, pid, folders, counted, mounts
        self._others = others
        self._in_memory = any(map(in_memory, {folder.parent for folder in folders}))
        self._taken = 0                     # of memory by its processes, at the last look
        self._count = self._size = 0        # of files in the folders, and their bytes, at the last look
        self._free = _free(folders)         # what was free then where they lie
        self._due = time.monotonic() + _PAUSE
        self._disk_due = self._due

    def due(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._due - time.monotonic())

    def look(self) -> str:
        """Which limit is passed, in words; nothing where none is, or a look is not due yet."""
        now = time.monotonic()
        if now < self._due:
            return ""
        self._due = now + (_DISK_PAUSE if self._counted else _PAUSE)
        found = ("" if self._counted else self._tree()) or self._kept_by_the_kernel()
        if not found and (now >= self._disk_due or self._has_grown()):
            found = self._disk()
            spent = time.monotonic() - now
            self._disk_due = now + spent + max(_DISK_PAUSE, _DISK_SHARE * spent)
        return found

    def _tree(self) -> str:
        memory = tables = tasks = descriptors = 0
        pids = list(tree(self._pid))
        for pid in pids:
            taken, for_tables, threads = _status(pid)
            memory, tables, tasks = memory + taken, tables + for_tables, tasks + threads
            descriptors += _descriptors(pid)
        # Besides the first process, which is not the command's: where the kernel counts it refuses at the limit, and those that
        # are just ending still show here.
        ending = _ENDING if _kernel() >= (5, 14) else 1
        if tasks > self._limits.processes + (ending if self._others is None else self._others):
            return f"it had more than {self._limits.processes:,} processes and threads at once"
        if descriptors > self._limits.descriptors:
            return f"its processes had more than {self._limits.descriptors:,} files open at once"
        self._taken = memory + tables
        if self._taken > self._limits.memory and tables + sum(map(_share, pids)) > self._limits.memory:
            return taking(self._limits.memory)
        return ""

    def _kept_by_the_kernel(self) -> str:
        """Files without a byte, and sockets that nobody reads: memory of no process."""
        try:
            made = sum(map(_entries, (f"/proc/{self._pid}/root{mount}" for mount in self._mounts)))
        except PermissionError as error:
            return f"its files in {' and '.join(self._mounts)} can't be counted: {error.strerror}"
        if made + self._count > self._limits.entries:
            return self._too_many()
        if self._others is None and _sockets(self._pid) > self._limits.sockets:
            return f"it had more than {self._limits.sockets:,} sockets at once"
        return ""

    def _has_grown(self) -> bool:
        """Whether so much less is free where the folders lie that a limit may be passed, long before the next look is due."""
        now = _free(self._folders)
        entries, size = (before - left for before, left in zip(self._free, now, strict=True))
        return entries > self._limits.entries - self._count or size > self._limits.disk - self._size

    def _disk(self) -> str:
        size = count = 0
        self._free = _free(self._folders)
        for taken in chain(sizes(self._folders), _deleted(self._pid, self._folders)):
            size, count = size + taken, count + 1
            if count > self._limits.entries:
                return self._too_many()
            if size > self._limits.disk:
                return f"it wrote more than {self._limits.disk // _MB:,} MB of files"
        self._count, self._size = count, size
        if self._in_memory and not self._counted and size + self._taken > self._limits.memory:
            return taking(self._limits.memory)
        return ""

    def _too_many(self) -> str:
        return f"it made more than {self._limits.entries:,} files and folders"


def taking(memory: int) -> str:
    """What is said where a command took more than so many bytes."""
    return f"it took more than {memory // _MB:,} MB of memory"


def tree(pid: int) -> Iterator[int]:
    """A process and all below it, as they are now; who ends meanwhile is left out."""
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        with suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                with suppress(OSError):
                    waiting += map(int, Path(f"/proc/{one}/task/{task}/children").read_bytes().split())


def is_first(pid: int) -> bool:
    """Whether it is number 1 of a process namespace below ours."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"NSpid:"):
                return len(line.split()) > 2 and line.split()[-1] == b"1"
    return False


def _status(pid: int) -> tuple[int, int, int]:
    """Bytes of memory that a process has for itself or shares with others that have it mapped, in memory or swapped out; bytes
    of the tables that map it, which no limit of the process counts; and how many threads it has.
    """
    taken = tables = threads = 0
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:")):
                taken += int(line.split()[1]) << 10
            elif line.startswith(b"VmPTE:"):
                tables = int(line.split()[1]) << 10
            elif line.startswith(b"Threads:"):
                threads = int(line.split()[1])
    return taken, tables, threads


def _share(pid: int) -> int:
    """The first of these where what is shared is parted among those who share it: exact, and too slow to be asked for always."""
    taken = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith((b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")):
                taken += int(line.split()[1]) << 10
    except PermissionError:             # it does not let itself be looked at
        return _status(pid)[0]
    except OSError:                     # it has ended
        return 0
    return taken


def _descriptors(pid: int) -> int:
    """How many files a process has open: since Linux 6.2 the size of that folder says so."""
    with suppress(OSError):
        folder = f"/proc/{pid}/fd"
        return os.stat(folder).st_size or len(os.listdir(folder))
    return 0


def _sockets(pid: int) -> int:
    """How many sockets there are in the network of a process, those that are under way in another one among them."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/net/sockstat").read_bytes().split()[2])       # sockets: used N
    return 0


def _entries(mount: str) -> int:
    """How many files and folders a file system has, those without a name among them. Raises PermissionError."""
    try:
        there = os.statvfs(mount)
    except PermissionError:
        raise
    except OSError:                     # it has ended
        return 0
    return there.f_files - there.f_ffree


def _free(folders: Sequence[Path]) -> tuple[int, int]:
    """How many files, and how many bytes, there is room for where these folders lie, which is one file system."""
    with suppress(OSError, IndexError):
        there = os.statvfs(folders[0])
        return there.f_ffree, there.f_bavail * there.f_frsize
    return 0, 0


def sizes(folders: Sequence[Path]) -> Iterator[int]:
    """Bytes on the disk of every file and folder below; what is gone meanwhile, or locked, counts nothing."""
    waiting = [str(folder) for folder in folders]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    yield entry.stat(follow_symlinks=False).st_blocks * 512


def _deleted(pid: int, folders: Sequence[Path]) -> Iterator[int]:
    """Bytes on the disk of every file that the tree below a process has deleted and keeps open."""
    disks = set()
    for folder in folders:
        with suppress(OSError):
            disks.add(os.stat(folder).st_dev)
    seen: set[tuple[int, int]] = set()
    for one in tree(pid):
        with suppress(OSError), os.scandir(f"/proc/{one}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    file = entry.stat()
                    if not file.st_nlink and file.st_dev in disks and (file.st_dev, file.st_ino) not in seen:
                        seen.add((file.st_dev, file.st_ino))
                        yield file.st_blocks * 512


def _kernel() -> tuple[int, ...]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int("".join(filter(str.isdigit, minor.partition("-")[0])) or 0)


def _at_most(what: int, wanted: int) -> int:
    """A limit, or the one that holds already where that is lower: nobody may raise it."""
    _, hard = resource.getrlimit(what)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
