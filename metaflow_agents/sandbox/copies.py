"""The copy that a command works on: a fresh temporary folder of exactly the given files, what is taken out of it, its removal."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from metaflow_agents.errors import AnswerInvalid, RunError
from metaflow_agents.sandbox import places
from metaflow_agents.sandbox.collecting import CollectedFiles, Mark, mark
from metaflow_agents.sandbox.port import FileChanges
from metaflow_agents.schema import paths

COLLECTED_BYTES = 64 * 1024 * 1024  # of each collected file
_FOLDERS = ("work", "home", "tmp")
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK         # a pipe must not keep us waiting
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


def refuse(files: Mapping[str, bytes], collect: Sequence[str]) -> None:
    """Raises AnswerInvalid for paths that may not stand in a run's repository, or can't all stand in one."""
    faults = [f"path `{path}` is refused: {why}" for path in (*files, *collect) if (why := paths.refusal(path))]
    pair = paths.clash(files)
    if pair:
        faults.append(f"`{pair[0]}` can't be a file and the folder of `{pair[1]}`")
    if faults:
        raise AnswerInvalid(faults)


class Copy:
    """A context manager: `base` with the folders `work` (the files), `home` and `tmp`; gone when it is left.

    `owner`: the user and group id that all of it belongs to; None: who runs this. `room`: see `places.made`. Raises RunError
    where there is no room.
    """

    def __init__(self, files: Mapping[str, bytes], owner: int | None = None, room: int = 0) -> None:
        self._files, self._owner, self._room = files, owner, room
        self._hold: int | None = None
        self.base = self.work = self.home = self.tmp = Path()
        self._marks: dict[str, Mark] = {}

    def __enter__(self) -> Self:
        with _room():
            self.base, self._hold = places.made(self._room)
        self.work, self.home, self.tmp = (self.base / name for name in _FOLDERS)
        try:
            with _room():
                self._lay_out()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            removed(self.base)
        finally:
            if self._hold is not None:
                os.close(self._hold)
                self._hold = None

    def _lay_out(self) -> None:
        for folder in (self.work, self.home, self.tmp):
            folder.mkdir()
            folder.chmod(0o755)                 # whatever the umask is
        work, made = str(self.work), {""}
        for path, data in self._files.items():
            for folder_inside in _missing(path, made):
                target = f"{work}/{folder_inside}"
                with suppress(FileExistsError):         # where upper and lower case are one
                    os.mkdir(target)
                os.chmod(target, 0o755)
                self._give(target)
            file = os.open(f"{work}/{path}", _WRITE, 0o644)
            try:
                _write(file, data)
                os.fchmod(file, 0o644)
                if self._owner is not None:
                    os.fchown(file, self._owner, self._owner)
                self._marks[path] = mark(os.fstat(file))
            finally:
                os.close(file)
        for folder in (self.base, self.work, self.home, self.tmp):
            self._give(str(folder))

    def _give(self, place: str) -> None:
        if self._owner is not None:
            os.chown(place, self._owner, self._owner)

    def changes(self, begun: int) -> FileChanges:
        """What a command that was let go at `begun` (nanoseconds since 1970) changed in the files."""
        return CollectedFiles(self._files, self._marks, begun).look(self.work)

    def collected(self, names: Sequence[str]) -> dict[str, bytes]:
        """Bytes of the named files that exist. Raises AnswerInvalid for links, folders and what is too large."""
        found: dict[str, bytes] = {}
        for name in names:
            try:
                found[name] = self._read(name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise AnswerInvalid([f"`{name}`, which the command made, can't be read: {error.strerror}"]) from error
        return found

    def _read(self, name: str) -> bytes:
        """Opened part by part, none of them a link, so that whatever stands there now, it lies in this folder."""
        *folders, last = name.split("/")
        here = os.open(self.work, _WALK)
        try:
            for part in folders:
                _refuse_link(name, part, here)
                inner = os.open(part, _WALK, dir_fd=here)
                os.close(here)
                here = inner
            if not stat.S_ISREG(os.lstat(last, dir_fd=here).st_mode):
                raise AnswerInvalid([f"`{name}`, which the command made, is not a regular file"])
            file = os.open(last, _READ, dir_fd=here)
        finally:
            os.close(here)
        with open(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise AnswerInvalid([f"`{name}`, which the command made, is not a regular file"])
            data = opened.read(COLLECTED_BYTES + 1)
        if len(data) > COLLECTED_BYTES:
            raise AnswerInvalid([f"`{name}`, which the command made, is larger than {COLLECTED_BYTES:,} bytes"])
        return data


def _refuse_link(name: str, part: str, here: int) -> None:
    if stat.S_ISLNK(os.lstat(part, dir_fd=here).st_mode):
        raise AnswerInvalid([f"`{name}`, which the command made, is not a regular file: `{part}` is a link"])


def _missing(path: str, made: set[str]) -> list[str]:
    """The folders around a path that are not made yet, the outermost first; they are, from now on."""
    missing, folder = [], path.rpartition("/")[0]
    while folder not in made:
        made.add(folder)
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    return missing[::-1]


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left):]


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"can't write the files of a command to the folder for temporary files: {error.strerror}; "
                       "make room there (TMPDIR names it), then `sop resume`") from error


def removed(folder: Path) -> None:
    """Remove a folder: also where a command took away the right to, or nested folders deeper than paths can name."""
    try:
        try:
            shutil.rmtree(folder)
        except (OSError, RecursionError):
            _flattened(folder)
    except OSError as error:
        raise RunError(f"can't remove the temporary folder {folder} of a command: {error.strerror}") from error


def _flattened(folder: Path) -> None:
    """Every folder in it is moved up to it and emptied there, so that no path gets long."""
    waiting, moved = [folder], 0
    while waiting:
        here = waiting.pop()
        os.chmod(here, 0o700)
        with os.scandir(here) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)     # a folder that moves has its `..` written anew
                moved += 1
                target = folder / f"removed-{moved}"
                with suppress(FileNotFoundError):
                    os.rename(entry.path, target)
                    waiting.append(target)
        if here != folder:
            os.rmdir(here)
    os.rmdir(folder)
