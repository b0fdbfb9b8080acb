"""Limits for a whole tree of processes by the kernel: control groups, version 2, where this user may make them.

Each command has a group of its own, a child of this process's group or of one around it whose children may have limits of
memory and of processes. Where there is none, `limits.Watchdog` adds up instead.

Source: Documentation/admin-guide/cgroup-v2.rst of the kernel (delegation, memory and pids controllers).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.limits import SandboxLimits, taking

_NEEDED = frozenset({"memory", "pids"})
_OWN = 4                            # processes in the group that are not the command's: bubblewrap's, and the shell before it
_NAME = "sop-"
_REMOVED_SECONDS = 5.0
_GROUPS = Path("/proc/self/cgroup")
_MOUNTS = Path("/proc/self/mountinfo")


class ControlGroup:
    """A group for one command. `parent`: as `group_parent` found it. Raises RunError where it can't be made any more."""

    def __init__(self, parent: Path, limits: SandboxLimits) -> None:
        self.folder = parent / f"{_NAME}{os.getpid()}-{os.urandom(6).hex()}"
        self._limits = limits
        with _mended(self.folder):
            self.folder.mkdir()
            self._write("memory.max", limits.memory)
            self._write("memory.oom.group", 1)
            self._write("pids.max", limits.processes + _OWN)
            if (self.folder / "memory.swap.max").exists():          # not where the kernel does not count swap
                self._write("memory.swap.max", 0)

    def take(self, pids: Iterable[int]) -> None:
        """Move processes into it; all that they start is in it too. Raises RunError."""
        with _mended(self.folder):
            for pid in pids:
                with suppress(ProcessLookupError):
                    self._write("cgroup.procs", pid)

    def passed(self) -> str:
        """Which limit ended the command, in words; nothing where none did."""
        with suppress(OSError, ValueError):
            for line in (self.folder / "memory.events").read_text(encoding="ascii").splitlines():
                name, _, count = line.partition(" ")
                if name in ("oom_kill", "oom_group_kill") and int(count):
                    return taking(self._limits.memory)
        return ""

    def remove(self) -> None:
        """Remove it, when all in it have ended. Raises RunError where something in it does not end."""
        deadline = time.monotonic() + _REMOVED_SECONDS
        while True:
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise RunError(f"can't remove the control group {self.folder} of a command: {error.strerror}") from error
            time.sleep(0.005)           # its processes are dead; the kernel still counts what is about to vanish

    def _write(self, name: str, value: int) -> None:
        (self.folder / name).write_text(str(value), encoding="ascii")


@contextmanager
def _mended(folder: Path) -> Iterator[None]:
    """OSError becomes RunError: limits that can't be laid are never left away in silence."""
    try:
        yield
    except OSError as error:
        raise RunError(f"can't limit a command by the control group {folder}: {error.strerror}; `sop doctor` says what holds "
                       "here; mend it, then `sop resume`") from error


@cache
def group_parent() -> Path | None:
    """The group in which each command gets one of its own; None where there is none that holds, tried once with a process."""
    if not sys.platform.startswith("linux"):
        return None
    return next((folder for folder in _around(_GROUPS, _MOUNTS) if _ready(folder) and _holds(folder)), None)


def _around(groups: Path, mounts: Path) -> Iterator[Path]:
    """The group of this process, and those around it, as far as they are mounted here."""
    try:
        mine = next((line[3:] for line in groups.read_text().splitlines() if line.startswith("0::")), None)
        fields = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return
    for words in fields:
        if mine is None or "-" not in words or words[words.index("-") + 1] != "cgroup2":
            continue
        root, top = words[3], Path(words[4])
        inside = mine.removeprefix(root.rstrip("/")).lstrip("/")
        folder = top / inside
        if ".." not in folder.parts and folder.is_dir():
            yield from (one for one in (folder, *folder.parents) if one == top or top in one.parents)


def _ready(folder: Path) -> bool:
    """Whether groups in it may have limits, and this user may make them and move processes."""
    try:
        given = set((folder / "cgroup.subtree_control").read_text(encoding="ascii").split())
    except OSError:
        return False
    return given >= _NEEDED and all(os.access(one, os.W_OK) for one in (folder, folder / "cgroup.procs"))


def _holds(folder: Path) -> bool:
    """Whether a process can be moved into a new group there. What orchestrators that were killed left behind is removed first."""
    for left in folder.glob(f"{_NAME}*"):
        owner = left.name.removeprefix(_NAME).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(OSError):
                left.rmdir()
    try:
        group = ControlGroup(folder, SandboxLimits())
    except RunError:
        return False
    try:
        with subprocess.Popen(["/bin/sh", "-c", "read -r _"], env={}, stdin=subprocess.PIPE) as waiting:
            group.take([waiting.pid])
            return str(waiting.pid) in (group.folder / "cgroup.procs").read_text(encoding="ascii").split()
    except (OSError, RunError):
        return False
    finally:
        with suppress(RunError):
            group.remove()
