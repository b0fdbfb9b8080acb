"""Files and folders that a run is given: what is read of them, and what of a folder is left out."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.schema import paths
from metaflow_agents.schema.ignored import Ignored, TooMany, holds_secrets

MAX_BYTES = 64 * 1024 * 1024
_IGNORE_BYTES = 1 << 18
_ONLY_BITS = "only its executable bit"
_PART = re.compile(r"its part `.*?` (?=ends |is )", re.DOTALL)
_WALK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Remote:
    """The client of a server, who hands in inputs and is not the user whose files and rights the run has.

    `root`: the folder below which the files and folders lie that the client may name, None where it may name none. `trusted`:
    whether the user vouches for what the client hands in, as for their own command line.
    """

    root: Path | None = None
    trusted: bool = False

    def find(self, written: Any) -> Path:
        """The path that the client names, below the root. Raises UsageError; the file itself is not looked at."""
        if self.root is None:
            raise UsageError("this server reads no files for its clients: start it with `--root FOLDER` for those in a folder")
        path = Path(str(written) if isinstance(written, str | Path) and str(written).isprintable() else "..")
        inside = path.relative_to(self.root) if path.is_absolute() and path.is_relative_to(self.root) else path
        if inside.is_absolute() or ".." in inside.parts:
            raise UsageError(f"{str(written)[:200]!r} is not below the folder of this server, {self.root}: name a path in it")
        return self.root / inside

    def open(self, path: Path, flags: int) -> int:
        """A descriptor of what lies there, opened part by part so that no link leads out of the root. Raises OSError."""
        assert self.root is not None
        here = os.open(self.root, _WALK & ~os.O_NOFOLLOW)
        *above, name = path.relative_to(self.root).parts or (".",)
        try:
            for part in above:
                below = os.open(part, _WALK, dir_fd=here)
                os.close(here)
                here = below
            return os.open(name, flags, dir_fd=here)
        finally:
            os.close(here)


def read_file(path: Path, remote: Remote | None = None) -> bytes:
    """The bytes of a file. What the user names may be a pipe or a device; what a client names is a regular file."""
    if remote is None and path.is_dir():
        raise UsageError(f"{path} is a folder; a file was expected")
    try:
        with path.open("rb") if remote is None else open(remote.open(path, _READ), "rb") as file:
            if remote is not None and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no regular file")
            data = file.read(MAX_BYTES + 1)         # what a device says has no size
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MiB")
        return data
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None


class InputFolder:
    """One reading of a folder: its regular files, links not followed."""

    def __init__(self, folder: Path, everything: bool, remote: Remote | None, exclude: Sequence[str]) -> None:
        self._folder, self._everything, self._remote = folder, everything, remote
        self._ignored, self._excluded = Ignored(), Ignored()
        self._exclude = "\n".join(exclude)
        self._above = ""                        # of the folder, from the top of the repository that it lies in
        self._left = MAX_BYTES
        self._found: dict[str, bytes] = {}
        self.left_out: list[str] = []
        self.untaken: dict[str, list[str]] = {}

    def read(self) -> dict[str, bytes]:
        """Path → bytes. Raises UsageError."""
        folder = self._folder
        if self._remote is None and not folder.is_dir():
            raise UsageError(f"{folder} is {'a file' if folder.exists() else 'not there'}; a folder was expected")
        opened = None
        try:
            self._excluded.add(self._exclude)
            if not self._everything:
                self._look_above()
            top, opened = (folder, None) if self._remote is None else (Path("."), self._remote.open(folder, _WALK))
            for where, folders, names, here in os.fwalk(top, onerror=_refuse, dir_fd=opened):
                below = Path(where).relative_to(top).as_posix()
                prefix = "" if below == "." else f"{below}/"
                if not self._everything:
                    self._gitignore(here, prefix.removesuffix("/"))
                folders[:] = [name for name in folders if self._takes(prefix + name, folder=True) and
                              not self._is_link(prefix + name, name, here)]
                for name in names:
                    self._take(prefix + name, name, here)
        except OSError as error:
            raise UsageError(f"can't read {folder}: {error.strerror}") from None
        except TooMany as error:
            raise UsageError(f"{folder}: {error}; `--everything` takes all files of folders") from None
        finally:
            if opened is not None:
                os.close(opened)
        return self._found

    def _take(self, path: str, name: str, here: int) -> None:
        if not self._takes(path, folder=False):
            return
        data = _regular(name, here, self._left)
        if data is not None:
            self._left -= len(data)
            self._found[path] = data
            if os.stat(name, dir_fd=here, follow_symlinks=False).st_mode & 0o111:
                self.untaken.setdefault(_ONLY_BITS, []).append(path)
        elif not self._is_link(path, name, here):
            self.untaken.setdefault("no regular file", []).append(path)
        if self._left < 0:
            raise UsageError(f"{self._folder} holds more than {MAX_BYTES // 1024 // 1024} MiB")

    def _takes(self, path: str, *, folder: bool) -> bool:
        name = path.rpartition("/")[2]
        if name.casefold() == ".git":
            return False                        # never part of it, and nobody asks for it
        excluded = self._excluded.leaves_out(path, folder=folder)
        why = "`exclude` names it" if excluded else _refusal(path)
        if why is not None:
            self.untaken.setdefault(why, []).append(_written(path) + "/" * folder)
            return False
        if not self._everything and (holds_secrets(name, folder=folder)
                                     or self._ignored.leaves_out(self._above + path, folder=folder)):
            self.left_out.append(f"{path}/" if folder else path)
            return False
        return True

    def _is_link(self, path: str, name: str, here: int) -> bool:
        """Whether it is a link, which is told then: links are not followed, to files or to folders."""
        link = stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
        if link:
            self.untaken.setdefault("a link", []).append(path)
        return link

    def _look_above(self) -> None:
        """The `.gitignore` files of the folders around it, up to the top of its repository."""
        if self._remote is not None and self._remote.root is not None:
            here, top = self._folder, self._remote.root
        else:
            here = self._folder.resolve()
            top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
        around = here.relative_to(top).parts
        self._above = "".join(f"{part}/" for part in around)
        for depth in range(len(around)):
            above = top.joinpath(*around[:depth])
            opened = os.open(above, _WALK) if self._remote is None else self._remote.open(above, _WALK)
            try:
                self._add(opened, "/".join(around[:depth]))
            finally:
                os.close(opened)

    def _gitignore(self, here: int, below: str) -> None:
        self._add(here, (self._above + below).removesuffix("/"))

    def _add(self, here: int, below: str) -> None:
        try:
            data = _regular(".gitignore", here, _IGNORE_BYTES)
        except FileNotFoundError:
            return
        if data is not None and len(data) > _IGNORE_BYTES:
            raise TooMany(f"a .gitignore has more than {_IGNORE_BYTES:,} bytes")
        self._ignored.add((data or b"").decode("utf-8", "replace"), below)


def _refusal(path: str) -> str | None:
    """Why a path can't be one of a set of files, in words that name no part: paths are told by their reason."""
    if any("\udc80" <= char <= "\udcff" for char in path):
        return "its name is not UTF-8"
    why = paths.refusal(path)
    return None if why is None else _PART.sub("a part of its path ", why)


def _written(path: str) -> str:
    """A path as text, also where its bytes are none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _refuse(error: OSError) -> None:
    raise error                                 # or a folder that can't be opened would be taken for an empty one


def _regular(name: str, folder: int, most: int) -> bytes | None:
    """A file of an open folder, up to one byte more than `most`; None for links, pipes and devices, which are no files of it."""
    try:
        file = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):       # a link; a socket
            return None
        raise
    with open(file, "rb") as opened:
        return opened.read(most + 1) if stat.S_ISREG(os.fstat(file).st_mode) else None
