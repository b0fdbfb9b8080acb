"""What a command changed in its copy: found without following a link, bounded, and without reading what it left alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from metaflow_agents.sandbox.port import FileChanges
from metaflow_agents.schema import paths

CHANGED_BYTES = 16 << 20            # of one file that comes back
CHANGED_TOTAL = 64 << 20            # of all of them together
CHANGED_FILES = 2000
REFUSED_TOLD = 200
LEFT_OUT_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"})
"""Folders that tools write for themselves: what is in them never comes back, and is never told as deleted."""
LEFT_OUT_ENDINGS = (".pyc", ".pyo")
_DEEPEST = 60                       # folders in folders: each is a descriptor while it is looked at
_TICK = 20_000_000                  # nanoseconds: twice the coarsest clock that a file's times are taken from
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC          # a pipe must not keep us waiting

Mark = tuple[int, int, int, int]
"""Of a file as it was laid out: inode, size, and the times of its bytes and of its inode in nanoseconds. Nobody without the
right to set the clock can set the last one back.
"""


def mark(file: os.stat_result) -> Mark:
    """The mark of a file."""
    return file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns


@dataclass(slots=True)
class CollectedFiles:
    """One look at a copy. `given`: the files as they were laid out; `marks`: theirs; `begun`: when the command started, in
    nanoseconds since 1970: a file that was laid out in the same tick of the clock may have been rewritten in it, unseen.
    """

    given: Mapping[str, bytes]
    marks: Mapping[str, Mark]
    begun: int
    _written: dict[str, bytes] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _total: int = 0

    def look(self, folder: Path) -> FileChanges:
        """All changes below a folder. What can't be read is refused, never an exception."""
        try:
            top = os.open(folder, _WALK)
        except OSError as error:
            return FileChanges(refused={".": f"it can't be looked into: {error.strerror}"})
        try:
            self._folder(top, "", 0)
        finally:
            os.close(top)
        return FileChanges(dict(sorted(self._written.items())), tuple(sorted(self._deleted())), self._told())

    def _folder(self, here: int, prefix: str, depth: int) -> None:
        try:
            with os.scandir(here) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(prefix.removesuffix("/") or ".", f"it can't be looked into: {error.strerror}")
            return
        for entry in found:
            path = prefix + entry.name
            try:
                kind = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(kind.st_mode):
                    self._inner(here, entry.name, path, depth)
                elif not path.endswith(LEFT_OUT_ENDINGS):
                    self._file(here, entry.name, path, kind)
            except OSError as error:
                self._refuse(path, f"it can't be read: {error.strerror}")

    def _inner(self, here: int, name: str, path: str, depth: int) -> None:
        if name in LEFT_OUT_FOLDERS:
            return
        why = paths.refusal(path) or ("it lies too deep" if depth >= _DEEPEST else None)
        if why is not None:
            self._refuse(path, why)
            return
        inner = os.open(name, _WALK, dir_fd=here)
        try:
            self._folder(inner, f"{path}/", depth + 1)
        finally:
            os.close(inner)

    def _file(self, here: int, name: str, path: str, kind: os.stat_result) -> None:
        known = self.marks.get(path)
        if known == mark(kind) and known[3] < self.begun - _TICK:
            self._seen.add(path)
            return
        why = _unfit(kind) or paths.refusal(path)
        given = self.given.get(path)
        if why is None and (given is None or len(given) != kind.st_size):
            why = self._too_much(kind.st_size)          # before it is read
        if why is not None:
            self._refuse(path, why)
        else:
            self._take(here, name, path)

    def _take(self, here: int, name: str, path: str) -> None:
        """Bytes of a regular file, looked at once more when it is open."""
        file = os.open(name, _READ, dir_fd=here)
        with open(file, "rb") as opened:
            why = _unfit(os.fstat(file))
            data = b"" if why else opened.read(CHANGED_BYTES + 1)
        if why is None and self.given.get(path) == data:
            self._seen.add(path)
            return
        why = why or (_too_large() if len(data) > CHANGED_BYTES else self._too_much(len(data)))
        if why is not None:
            self._refuse(path, why)
            return
        self._total += len(data)
        self._written[path] = data

    def _too_much(self, size: int) -> str | None:
        """Why one more file of this size would be too much."""
        if len(self._written) >= CHANGED_FILES:
            return f"more than {CHANGED_FILES:,} files were written"
        return (f"the files that were written are larger than {CHANGED_TOTAL >> 20} MB together"
                if self._total + size > CHANGED_TOTAL else None)

    def _refuse(self, path: str, why: str) -> None:
        self._refused[path.encode("utf-8", "backslashreplace").decode()] = why

    def _deleted(self) -> Iterator[str]:
        """Given files that are not there. What lies where nobody could look, or is left out, is not known to be gone."""
        for path in self.given:
            if path in self._seen or path in self._written or path in self._refused or _left_out(path):
                continue
            if not any(folder in self._refused and not self._is_other(folder) for folder in _around(path)):
                yield path

    def _is_other(self, folder: str) -> bool:
        """Whether a refused path is no folder: then what was in the folder of that name is gone."""
        return self._refused[folder].startswith(_IS)

    def _told(self) -> dict[str, str]:
        first = dict(sorted(self._refused.items())[:REFUSED_TOLD])
        more = len(self._refused) - len(first)
        return first | ({"…": f"{more:,} more are refused"} if more else {})


_IS = "it is a "


def _unfit(kind: os.stat_result) -> str | None:
    """Why what stands there does not come back, whatever is in it."""
    if stat.S_ISREG(kind.st_mode):
        return _too_large() if kind.st_size > CHANGED_BYTES else None
    names = {stat.S_IFLNK: "link", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder"}
    return f"{_IS}{names.get(stat.S_IFMT(kind.st_mode), 'device')}, not a regular file"


def _too_large() -> str:
    return f"it is larger than {CHANGED_BYTES >> 20} MB"


def _left_out(path: str) -> bool:
    return path.endswith(LEFT_OUT_ENDINGS) or not LEFT_OUT_FOLDERS.isdisjoint(path.split("/")[:-1])


def _around(path: str) -> Iterator[str]:
    """The folders around a path, the copy's own (`.`) first."""
    parts = path.split("/")
    yield "."
    yield from ("/".join(parts[:end]) for end in range(1, len(parts)))
