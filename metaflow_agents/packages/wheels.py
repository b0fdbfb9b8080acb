"""A wheel unpacked into an environment, by `installer` (https://installer.readthedocs.io); nothing of it is run.

Whatever is odd about its names refuses it whole. What would act by lying there is left out, and told: files that Python runs as
it starts, a module or script in the place of Python's or pytest's own, data outside of `share/` and `etc/`.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import installer
from installer.destinations import WheelDestination
from installer.records import RecordEntry
from installer.scripts import Script
from installer.sources import WheelFile
from installer.utils import Scheme, construct_record_file

from metaflow_agents.errors import AttemptFailed
from metaflow_agents.packages.lock import Package

BYTES = 1 << 30
"""Of an environment, unpacked."""
FILES = 60_000
_DIRECTORY_BYTES = 32 << 20
_PIECE = 1 << 20
_ALONE = frozenset({"sitecustomize", "usercustomize"})
_OF_PYTEST = frozenset({"pytest", "_pytest"})
_DATA = ("share", "etc")
_SCRIPT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_TAKEN = re.compile(r"(python[\d.]*w?|pytest|py\.test)(\.exe)?", re.IGNORECASE)
_HEAD = b"#!/bin/sh\n'''exec' \"${0%/*}/python\" \"$0\" \"$@\"\n' '''\n"
"""Runs the rest by the Python beside it, wherever that lies: for a shell the second line is a command, for Python a text."""


class Room:
    """What is left for an environment to take."""

    def __init__(self) -> None:
        self.bytes, self.files = BYTES, FILES

    def take(self, size: int) -> None:
        """Raises AttemptFailed where it is too much."""
        self.bytes, self.files = self.bytes - size, self.files - 1
        if self.bytes < 0 or self.files < 0:
            raise AttemptFailed(f"the packages take more than {BYTES >> 20:,} MB or {FILES:,} files: leave out the largest")


def unpack(wheel: Path, package: Package, environment: Path, packages: Path, room: Room) -> list[str]:
    """Unpack a wheel whose hash is that of the lock: modules into `packages`, which lies in `environment`, scripts in its `bin`.
    What was left out, with why. Raises AttemptFailed.
    """
    _verified(wheel, package)
    destination = _Destination(package, environment, packages, room)
    try:
        _looked_at(wheel, room)
        with WheelFile.open(wheel) as source:
            installer.install(source, destination, {"INSTALLER": b"metaflow-agents\n"})
    except (OSError, ValueError, KeyError, AssertionError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
            installer.exceptions.InstallerError, struct.error) as error:
        raise AttemptFailed(f"the wheel `{package.file}` can't be unpacked: {type(error).__name__}: {str(error)[:300]}") from None
    return destination.left_out


def _verified(wheel: Path, package: Package) -> None:
    found = hashlib.sha256()
    try:
        with wheel.open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    except FileNotFoundError:
        raise AttemptFailed(f"the index gave no `{package.file}`") from None
    if found.hexdigest() != package.sha256:
        raise AttemptFailed(f"`{package.file}` is not the file of the lock (SHA-256 {found.hexdigest()[:12]}…, the lock "
                            f"has {package.sha256[:12]}…): it was replaced on the index, or on the way; nothing of it is used")


def _looked_at(wheel: Path, room: Room) -> None:
    """Raises AttemptFailed, ValueError for a wheel whose list of files alone says that it is refused."""
    with wheel.open("rb") as file:                      # before `zipfile` reads a list that may be as long as the file
        file.seek(max(0, wheel.stat().st_size - (1 << 16) - 22))
        tail = file.read()
    end = tail.rfind(b"PK\5\6")
    if end < 0 or struct.unpack("<I", tail[end + 12:end + 16])[0] > _DIRECTORY_BYTES:
        raise ValueError("it is no ZIP, or lists too many files")
    with zipfile.ZipFile(wheel) as archive:
        listed = archive.infolist()
    if len(listed) > room.files or sum(one.file_size for one in listed) > room.bytes:
        room.take(BYTES + 1)
    for one in listed:
        if (why := _refused(one.filename)) is not None:
            raise ValueError(f"it holds a file with the name {one.filename[:200]!r}: {why}")


def _refused(path: str) -> str | None:
    """Why no file may be called so; None where it may."""
    if path.startswith("/") or ":" in path or "\\" in path:
        return "an absolute path, or one of another system"
    if not path.isprintable():
        return "it holds control characters"
    parts = path.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it leads elsewhere"
    return "it is too long" if len(path) > 500 or any(len(part.encode()) > 255 for part in parts) else None


class _Destination(WheelDestination):
    """Where the files of one wheel go."""

    def __init__(self, package: Package, environment: Path, packages: Path, room: Room) -> None:
        self._package, self._room = package, room
        self._places = {"purelib": packages, "platlib": packages, "scripts": environment / "bin", "data": environment}
        self._packages = packages
        self.left_out: list[str] = []

    def write_script(self, name: str, module: str, attr: str, section: str) -> RecordEntry:
        """An entry point."""
        _, code = Script(name, module, attr, section).generate("python", "posix")     # type: ignore[arg-type]
        if self._kept("scripts", name):
            self._write(self._places["scripts"] / name, [_HEAD, code.partition(b"\n")[2]], executable=True)
        return RecordEntry(name, None, None)

    def write_file(self, scheme: Scheme, path: str | os.PathLike[str], stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """A file, if it is kept."""
        where = os.fspath(path)
        if self._kept(scheme, where):
            first = stream.read(_PIECE)
            if scheme == "scripts" and first.startswith(b"#!python"):
                first = _HEAD + first.partition(b"\n")[2]
            self._write(self._places[scheme] / where, [first, *iter(lambda: stream.read(_PIECE), b"")],
                        executable=is_executable or scheme == "scripts")
        return RecordEntry(where, None, None)

    def finalize_installation(self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]) -> None:
        """The list of what was written."""
        above = "/".join([".."] * len(self._packages.relative_to(self._places["data"]).parts))
        prefixes = {"scripts": f"{above}/bin/", "data": f"{above}/"}
        written = [(one, entry) for one, entry in records if one == scheme or one in prefixes]
        with construct_record_file(written, lambda one: prefixes.get(one)) as stream:
            self._write(self._packages / record_file_path, [stream.read()], executable=False)

    def _kept(self, scheme: str, path: str) -> bool:
        why = self._why_not(scheme, path)
        if why:
            # A publisher chose the name, and a prompt may show it: letters that make a sentence are not told.
            self.left_out.append(f"{self._package.name}: {re.sub(r'[^A-Za-z0-9._/+-]', '?', path)[:100]}: {why}")
        return not why

    def _why_not(self, scheme: str, path: str) -> str:
        if (why := _refused(path)) is not None:
            raise ValueError(f"it holds a file with the name {path[:200]!r}: {why}")
        if scheme not in self._places:
            return f"nothing is built, so `{scheme}` are of no use"
        first, _, rest = path.partition("/")
        module = first.partition(".")[0].casefold()
        if scheme == "data" and (first not in _DATA or not rest):
            return f"data lie below {' and '.join(f'{one}/' for one in _DATA)}"
        if scheme == "scripts" and not _SCRIPT.fullmatch(path):
            return "no name of a script"
        if scheme == "scripts" and _TAKEN.fullmatch(path) and self._package.name != "pytest":
            return "it would stand in place of Python or pytest"
        if scheme in ("purelib", "platlib") and not rest and first.casefold().endswith(".pth"):
            return "Python runs it as it starts"
        if scheme in ("purelib", "platlib") and module in _ALONE:
            return "Python runs it as it starts"
        if scheme in ("purelib", "platlib") and module in _OF_PYTEST and self._package.name != "pytest":
            return "it would stand in place of pytest"
        return "another package has a file there" if os.path.lexists(self._places[scheme] / path) else ""

    def _write(self, path: Path, pieces: Iterable[bytes], *, executable: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        size = 0
        with path.open("xb") as file:
            for piece in pieces:
                size += len(piece)
                if size > self._room.bytes:
                    break
                file.write(piece)
        self._room.take(size)
        path.chmod(0o555 if executable else 0o444)
