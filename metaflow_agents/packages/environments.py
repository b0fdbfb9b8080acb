"""Environments of a run's commands, made from locks alone and kept for the next run: once for each lock, whole or not at all.

An environment is laid out as `venv` does it, and can be moved: `bin/python` leads to the Python that this one is based on, the
packages lie where it looks for them, and pytest behind them. A lock of files holds whoever makes one, and whoever uses one, apart
from who removes it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from metaflow_agents.errors import AttemptFailed, RunError
from metaflow_agents.packages.lock import Lock
from metaflow_agents.packages.pip import Pip
from metaflow_agents.packages.requirements import WantedPackage
from metaflow_agents.packages.wheels import Room, unpack
from metaflow_agents.policy.subjects import canonical
from metaflow_agents.sandbox.interpreter import base_program, python_version
from metaflow_agents.schema.model import fingerprint
from metaflow_agents.texts.strict_json import NotJSON, read
from metaflow_agents.threads.blocking import Threads

MOST = 40
MOST_BYTES = 8 << 30
"""Of all environments that are kept; the one that was used longest ago goes first."""
_FORMAT = 1
_WHOLE = "whole.json"
_WAIT_SECONDS = 0.05
_OURS = ("pytest", "pytest-asyncio")
_THREADS = Threads(4, "packages")


class Environments:
    """The environments of this user, in `folder` (None: there is no home); `environment`: what pip gets of the user's."""

    def __init__(self, folder: Path | None, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)

    async def resolved(self, wanted: list[WantedPackage]) -> Lock:
        """The lock of what is wanted and all that it depends on, and its environment made. Raises AttemptFailed, RunError."""
        pip = Pip(self._environment)
        lock = await _THREADS.run(partial(pip.resolved, wanted), pip.stop)
        async with self.held(lock) as environment:
            return lock.model_copy(update={"left_out": tuple(_told(environment)["left_out"])})

    @asynccontextmanager
    async def held(self, lock: Lock) -> AsyncIterator[Path]:
        """The environment of a lock, made if there is none, and not removed while this is entered. Raises as `resolved` does."""
        making = _Making(self._place(), lock, Pip(self._environment))
        environment, descriptor = await _THREADS.run(making.ready, making.stop)
        try:
            yield environment
        finally:
            os.close(descriptor)

    def _place(self) -> Path:
        if self._folder is None:
            raise AttemptFailed("environments of packages are kept in your cache folder, and there is no home: `export "
                                "XDG_CACHE_HOME=…`")
        return Path(os.path.realpath(self._folder))


class _Making:
    """One environment, by a thread that may block; `stop` comes from another one."""

    def __init__(self, folder: Path, lock: Lock, pip: Pip) -> None:
        self._folder, self._lock, self._pip = folder, lock, pip
        self._key = _key(lock)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._pip.stop()

    def ready(self) -> tuple[Path, int]:
        """The environment, and the descriptor that holds it for as long as it is open."""
        try:
            self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            environment = self._folder / self._key
            while True:
                descriptor = self._held(fcntl.LOCK_SH)
                if _whole(environment):
                    os.utime(environment)
                    return environment, descriptor
                os.close(descriptor)
                with self._alone():
                    if not _whole(environment):
                        self._make(environment)
                _tidy(self._folder, self._key)
        except OSError as error:
            raise RunError(f"the environment of packages can't be made in {self._folder}: {error.strerror}; make room there, or "
                           "choose another place: `export XDG_CACHE_HOME=…`; then `sop resume`") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        descriptor = self._held(fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(descriptor)

    def _held(self, how: int) -> int:
        while True:
            if self._stopped:
                raise RunError("the environment of packages was not made: it was stopped")
            descriptor = _locked(self._folder / f"{self._key}.lock", how)
            if descriptor is not None:
                return descriptor
            time.sleep(_WAIT_SECONDS)

    def _make(self, environment: Path) -> None:
        """In a folder beside it, that gets its name when it is whole. What a process left that was killed goes first."""
        begun = environment.with_suffix(".begun")
        _remove(begun)
        _remove(environment)
        begun.mkdir()
        try:
            wheels = begun / "wheels"
            if self._lock.packages:
                wheels.mkdir()
                self._pip.fetched(self._lock, wheels)
            packages = begun / _site()
            packages.mkdir(parents=True)
            (begun / "bin").mkdir()
            room, left_out = Room(), list[str]()
            for package in self._lock.packages:
                if self._stopped:
                    raise RunError("the environment of packages was not made: it was stopped")
                left_out += unpack(wheels / package.file, package, begun, packages, room)
            _remove(wheels)
            _complete(begun, packages, {one.name for one in self._lock.packages})
            files, size = _counted(begun)
            told = {"files": files + 1, "bytes": size, "left_out": left_out[:MOST * 5]}
            (begun / _WHOLE).write_text(json.dumps(told), encoding="utf-8")
            for folder, _, _ in os.walk(begun, topdown=False):
                os.chmod(folder, 0o555)
            os.rename(begun, environment)
        except BaseException:
            _remove(begun)
            raise


def _key(lock: Lock) -> str:
    """Of all that decides what lies in an environment."""
    return fingerprint({"format": _FORMAT, "lock": lock.digest, "python": sys.version.split()[0], "base": base_program(),
                        "ours": sorted(f"{name}=={one.version}" for name, one in _pytest().items())})


def _site() -> Path:
    return Path("lib", f"python{python_version()}", "site-packages")


def _complete(environment: Path, packages: Path, names: set[str]) -> None:
    """Python, and pytest where the lock has none of its own."""
    programs = environment / "bin"
    for name in ("python", "python3", f"python{python_version()}"):
        (programs / name).symlink_to(base_program())
    (environment / "pyvenv.cfg").write_text(f"home = {os.path.dirname(base_program())}\ninclude-system-site-packages = false\n"
                                            f"version = {sys.version.split()[0]}\n", encoding="utf-8")
    if "pytest" in names:
        return
    behind = environment / "pytest"
    for name, one in _pytest().items():
        if name not in names:
            _copied(one, behind)
    # A line of a `.pth` file is a folder that Python looks into after that of the file itself: what the lock names comes first.
    (packages / "pytest-beside.pth").write_text("../../../pytest\n", encoding="ascii")
    for name in ("pytest", "py.test"):
        program = programs / name
        program.write_bytes(b"#!/bin/sh\n'''exec' \"${0%/*}/python\" \"$0\" \"$@\"\n' '''\nimport sys\nimport pytest\n"
                            b"sys.exit(pytest.main())\n")
        program.chmod(0o555)


@cache
def _pytest() -> Mapping[str, Distribution]:
    """pytest, its plugin for coroutines, and what they need, as this Python has them: all of it pure Python."""
    found: dict[str, Distribution] = {}
    left = list(_OURS)
    while left:
        name = canonical(left.pop())
        if name in found:
            continue
        with suppress(PackageNotFoundError):
            found[name] = distribution(name)
            needs = [Requirement(text) for text in found[name].requires or ()]
            left += [one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def _copied(one: Distribution, into: Path) -> None:
    for file in one.files or ():
        source = Path(str(one.locate_file(file)))
        if ".." in file.parts or file.suffix in (".pyc", ".pth") or not source.is_file():
            continue
        target = into / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o444)


def _told(environment: Path) -> dict[str, Any]:
    try:
        told = read((environment / _WHOLE).read_bytes())
    except (OSError, NotJSON):
        return {}
    return told if isinstance(told, dict) else {}


@cache
def _looked_at(environment: Path, made: int) -> bool:
    told = _told(environment)
    files, size = _counted(environment)
    return (told.get("files"), told.get("bytes")) == (files, size - (environment / _WHOLE).stat().st_size)


def _whole(environment: Path) -> bool:
    """Whether it is there with all its files; looked at once in a process. A crash of the machine may lose some."""
    try:
        return _looked_at(environment, (environment / _WHOLE).stat().st_mtime_ns)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        return False


def _counted(folder: Path) -> tuple[int, int]:
    """How many files and links, and the bytes of the files."""
    found = [os.lstat(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names]
    return len(found), sum(one.st_size for one in found)


def _locked(path: Path, how: int) -> int | None:
    """The descriptor of a file that is locked; None where somebody else has it, or has removed it meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _tidy(folder: Path, but: str) -> None:
    """Removes what is too much, and what processes that were killed had begun. What is in use stays."""
    kept: list[tuple[float, Path, int]] = []
    for one in folder.iterdir():
        if one.suffix == ".begun" and one.stem != but:
            _given_up(folder, one.stem)
        elif not one.suffix:
            with suppress(OSError):
                size = _told(one).get("bytes")
                kept.append((one.stat().st_mtime, one, size if isinstance(size, int) else 0))
    size = 0
    for at, (_, one, its) in enumerate(sorted(kept, reverse=True)):
        size += its
        if (at >= MOST or size > MOST_BYTES) and one.name != but:
            _given_up(folder, one.name)


def _given_up(folder: Path, key: str) -> None:
    """Removes an environment, begun or whole, that nobody uses or makes."""
    descriptor = _locked(folder / f"{key}.lock", fcntl.LOCK_EX)
    if descriptor is not None:
        _remove(folder / f"{key}.begun")
        _remove(folder / key)
        (folder / f"{key}.lock").unlink(missing_ok=True)
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """A folder with all that is in it, though its folders can't be written to."""
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)
    if folder.exists():
        shutil.rmtree(folder)
