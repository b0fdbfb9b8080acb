"""A run's folder of files: confined to itself, each file there whole or not at all.

Every folder on the way to a file is opened by itself, from the run's folder down, and never through a link: neither a
path nor a link that somebody put there leads outside. A file is written under a temporary name beside its place and
renamed over it. Nothing is synced: the journal is, it is written first, and `reconcile` makes the folder what the
journal says.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import NoReturn, TypeVar

from aiofiles.os import wrap

from metaflow_agents.errors import RunError
from metaflow_agents.schema import paths
from metaflow_agents.threads.blocking import carried, to_the_end

T = TypeVar("T")

PARTIAL = ".sop-part-"              # temporary names; the file's own name follows, by digest
_TOGETHER = 64                      # files that are loaded and written at once when the folder is set right
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Changes:
    """What `reconcile` had to do: paths, sorted."""

    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class Workspace:
    """The files of one run, and only them: the folder belongs to the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = asyncio.Lock()

    async def apply(self, written: Mapping[str, bytes], deleted: Iterable[str] = ()) -> None:
        """Delete, then write: path → bytes. Folders are made as needed, and removed when they become empty.

        What is to be deleted may be gone already. Raises RunError for a refused path, a link or a file that stands
        where a folder is needed, and where the disk refuses; what was done until then stays, `reconcile` mends it.
        """
        gone = tuple(deleted)
        for path in (*written, *gone):
            self._refuse(path)
        async with self._lock:
            stopped = Event()
            await self._run(partial(self._apply, written, gone, stopped), stopped.set)

    async def reconcile(self, files: Mapping[str, str], load: Callable[[str], Awaitable[bytes]]) -> Changes:
        """Make the folder hold exactly `files` (path → SHA-256 in hex of its bytes, which `load` gives for it).

        What is the same is left alone; all else, links and leftovers of a killed process included, is deleted, but
        for a `.git` folder at the top. Raises RunError, as `apply` does.
        """
        for path in files:
            self._refuse(path)
        pair = paths.clash(files)
        if pair:
            raise RunError(f"`{pair[0]}` can't be a file and the folder of `{pair[1]}`")
        async with self._lock:
            there, extra = await self._run(partial(self._cleared, files))
            differing = sorted(path for path, digest in files.items() if there.get(path) != digest)
            for first in range(0, len(differing), _TOGETHER):
                some = {path: await load(files[path]) for path in differing[first:first + _TOGETHER]}
                await self._run(partial(self._apply, some))
        return Changes(tuple(differing), tuple(path for path in extra if path not in files))

    async def _run(self, work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
        """One blocking piece of work in a thread, which is never left behind half done; `stop` asks it to end soon."""
        piece: asyncio.Future[T] = asyncio.ensure_future(wrap(carried(work))())
        try:
            return await to_the_end(piece, stop)
        except OSError as error:
            raise cant_write(".", self.folder, error) from error

    def _refuse(self, path: str) -> None:
        why = paths.refusal(path)
        if why is None and any(part.startswith(PARTIAL) for part in path.split("/")):
            why = f"names that start with `{PARTIAL}` are those of files in the making"
        if why:
            raise RunError(f"path `{path}` is refused: {why}")

    # What follows blocks and runs in a thread.

    def _apply(self, written: Mapping[str, bytes], deleted: Iterable[str] = (), stopped: Event | None = None) -> None:
        """All of it in one visit to a thread, which costs more than a small file does; it may end between two files."""
        works = [*((path, partial(self._delete, path)) for path in deleted),
                 *((path, partial(self._write, path, data)) for path, data in written.items())]
        for path, work in works:
            if stopped is not None and stopped.is_set():
                return
            try:
                work()
            except OSError as error:
                raise cant_write(path, self.folder, error) from error

    @contextmanager
    def _parent(self, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """The open folder that a path's last part stands in, and that part."""
        *above, name = path.split("/")
        if make:
            self.folder.mkdir(parents=True, exist_ok=True)
        here = os.open(self.folder, _FOLDER)
        try:
            for part in above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=here)
                below = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here, name
        finally:
            os.close(here)

    def _write(self, path: str, data: bytes) -> None:
        with self._parent(path, make=True) as (folder, name):
            partial = PARTIAL + hashlib.sha256(name.encode()).hexdigest()[:16]
            try:
                with open(os.open(partial, _FILE, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    os.fchmod(file.fileno(), 0o644)
                os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):     # the first error is told; a leftover is for `reconcile`
                    os.unlink(partial, dir_fd=folder)
                raise

    def _delete(self, path: str) -> None:
        try:
            with self._parent(path, make=False) as (folder, name):
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        above = path.rpartition("/")[0]
        while above:
            with self._parent(above, make=False) as (folder, name):
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        return
                    raise
            above = above.rpartition("/")[0]

    def _cleared(self, files: Container[str]) -> tuple[dict[str, str | None], list[str]]:
        """What stands there, and what of it is none of `files`, or no file: deleted, and folders that hold nothing with it."""
        there, hollow = self._listed()
        extra = sorted(path for path, digest in there.items() if path not in files or digest is None)
        self._apply({}, extra)
        if extra or hollow:
            self._prune()
        return there, extra

    def _walk(self) -> Iterator[tuple[str, str, list[str], list[str], int]]:
        """Every folder but `.git`, deepest first: path, its prefix, the folders and the other entries in it, and it, open."""
        for where, folders, others, here in os.fwalk(self.folder, topdown=False, onerror=_raise):
            inside = os.path.relpath(where, self.folder)
            inside = "" if inside == "." else inside
            if inside.split("/")[0] != ".git":
                yield inside, f"{inside}/" if inside else "", folders, others, here

    def _listed(self) -> tuple[dict[str, str | None], bool]:
        """Path → digest of what stands there; None for what is not a regular file. And whether a folder holds nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.folder.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        found: dict[str, str | None] = {}
        hollow = False
        for inside, prefix, folders, others, here in self._walk():
            hollow = hollow or bool(inside and not folders and not others)
            for name in (*others, *folders):
                mode = os.lstat(name, dir_fd=here).st_mode
                if stat.S_ISREG(mode):
                    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here), "rb") as file:
                        digest = hashlib.file_digest(file, "sha256").hexdigest()
                    found[prefix + name] = digest if stat.S_IMODE(mode) == 0o644 else f"mode {mode:o}"
                elif not stat.S_ISDIR(mode):
                    found[prefix + name] = None
        return found, hollow

    def _prune(self) -> None:
        """Remove the folders that hold nothing."""
        for _, _, folders, _, here in self._walk():
            for name in folders:
                if name != ".git" and stat.S_ISDIR(os.lstat(name, dir_fd=here).st_mode):
                    with suppress(OSError):     # not empty
                        os.rmdir(name, dir_fd=here)


def cant_write(what: str, folder: Path, error: OSError, again: str = "sop resume") -> RunError:
    """What is told where the disk refused `what` in a run's folder, with the mend; `again` is the command after it."""
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        mend = f"make room, then `{again}` goes on from the journal"
    elif error.errno in (errno.ELOOP, errno.ENOTDIR):
        why, mend = "a link or a file stands where a folder is needed", f"remove it, then `{again}`"
    elif error.errno == errno.EISDIR:
        why, mend = "a folder stands where the file belongs", f"remove it, then `{again}`"
    else:
        mend = f"see to the folder's permissions, then `{again}`"
    return RunError(f"can't write `{what}` in {folder}: {why}; {mend}")


def _raise(error: OSError) -> NoReturn:
    raise error
