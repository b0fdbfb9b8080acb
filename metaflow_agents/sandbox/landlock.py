"""The sandbox called `landlock`: for Linux where namespaces can't be made, by Landlock (https://landlock.io) through the package
`sandlock`, and filters of system calls.

The command sees the machine as it lies there, and can open of it what `bubblewrap` would show: the system's programs and
libraries, this Python, and its copy. It has no network, no other process within its reach, and no user of its own:
`docs/security.md` says what that leaves open. As root it becomes a user without rights, to whom this Python must be readable.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bridging, unspaced
from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Order
from metaflow_agents.sandbox.cgroup import group_parent
from metaflow_agents.sandbox.confined import SandboxPlace
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.denied import ProcessTree, denied_places
from metaflow_agents.sandbox.interpreter import interpreter_places, user_base
from metaflow_agents.sandbox.kept import KeptCopies
from metaflow_agents.sandbox.limited import Filtered
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.sanitised import PACKAGES, OutputSanitiser

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives",
           "/sys/devices/system/cpu")
_FACTS = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys/vm/overcommit_memory",
          "sys/kernel/random", *(f"self/{name}" for name in ("status", "stat", "statm", "maps", "cmdline", "environ", "limits",
                                                             "comm", "fd", "fdinfo")))
"""Of `/proc`: what tells of no process but the command's first one. `self` is that one; its children have none. Not its `net`,
which is this machine's.
"""
KEEPER = "metaflow_agents.sandbox.keeper"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


class Landlock(Filtered):
    """Commands confined without namespaces, each within `limits`."""

    name = "landlock"

    def group(self, copy: Copy, order: Order) -> ProcessGroup:
        """A keeper, which confines the command on the copy."""
        if order.proxy is not None:
            self._open_to_others(order.proxy)
        if order.packages is not None and self.owner is not None and (closed := next(_closed((str(order.packages),)), None)):
            raise RunError(f"root's commands run as another user, who may not enter {closed}, where the environment of packages "
                           "lies: `export XDG_CACHE_HOME=…` to a folder that everybody may read, then `sop resume`")
        folders = (copy.work, copy.home, copy.tmp)
        job = {
            "owner": self.owner, "work": str(copy.work), "copies": [os.path.realpath(folder) for folder in folders],
            "readable": self._readable(order), "writable": [*map(str, folders), *(f"/dev/{name}" for name in _DEVICES)],
            "limits": _kernel_limits(self.limits, order.timeout), "proxied": ("127.0.0.1", bridging.PORT),
            "proxy": None if order.proxy is None else str(order.proxy),
            "filters": [one.hex() for one in (unspaced.program(proxied=order.proxy is not None), self._filter)],
        }
        file = copy.base / f"job-{os.urandom(4).hex()}.json"
        try:
            file.write_text(json.dumps(job), encoding="ascii")
        except OSError as error:
            raise RunError(f"can't write to the folder for temporary files: {error.strerror}; make room there, then `sop resume`"
                           ) from error
        argv = (sys.executable, "-I", "-m", KEEPER, str(file), *order.argv)
        return KeptCopies(
            argv,
            order.argv,
            environment=self._variables(copy, order),
            limits=self.limits,
            timeout=self.seconds(order),
            place=SandboxPlace(folders, group_parent()),
            channel=order.channel,
        )

    def shown(self, copy: Copy, packages: Path | None = None) -> OutputSanitiser:
        """As `Unconfined` shows it."""
        return OutputSanitiser(
            ((str(copy.work), "."), (str(copy.base), ".."), *(() if packages is None else ((str(packages), PACKAGES),)))
        )

    def _readable(self, order: Order) -> list[str]:
        """What the command may read and execute besides its copy: without the files of denied programs. The interpreter of a
        session is another matter, and stays.
        """
        places = sorted({os.path.realpath(place) if not place.startswith("/proc/") else place
                         for place in readable(order.packages)})
        if not order.denied:
            return places
        trees = tuple(ProcessTree(place, place) for place in places if not place.startswith(("/proc/", "/sys/", "/etc/")))
        return list(_without(places, denied_places(order.denied, trees, sys.executable if order.channel is not None else "")))

    def _variables(self, copy: Copy, order: Order) -> dict[str, str]:
        beside = str(Path(sys.executable).parent if order.packages is None else order.packages / "bin")
        proxied = {} if order.proxy is None else bridging.variables(bridging.PORT)
        return self._environment | SAME_EVERYWHERE | user_base() | proxied | {
            "PATH": os.pathsep.join(dict.fromkeys((beside, *_PATH))), "HOME": str(copy.home), "TMPDIR": str(copy.tmp),
            "PWD": str(copy.work)}

    def _open_to_others(self, proxy: Path) -> None:
        """Root's keeper is somebody else: the folder around the socket keeps others from it, not its mode."""
        if self.owner is not None:
            try:
                proxy.chmod(0o666)
            except OSError as error:
                raise RunError(f"the proxy's socket {proxy} can't be used: {error.strerror}; try again: `sop resume`") from error


def missing() -> tuple[str, str] | None:
    """What of this machine or its Python keeps the sandbox from being tried, and what to do about it; None where it may hold."""
    if not sys.platform.startswith("linux"):
        return f"Landlock is there for Linux alone, and this is {sys.platform}", "use `--sandbox container`"
    if find_spec("sandlock") is None:
        return "the package `sandlock` is not installed", f"{sys.executable} -m pip install sandlock"
    closed = next(_closed(interpreter_places(("/usr",))), None) if os.geteuid() == 0 else None
    if closed:
        return (f"root's commands run as another user, who may not enter {closed}, where this Python lies",
                "run it as an ordinary user, or with a Python that everybody may read")
    return None


def readable(packages: Path | None = None) -> Iterator[str]:
    """What a command may read and execute, besides its copy: of these, what exists. `packages`: see `Sandbox.run`."""
    python = interpreter_places(("/usr",), based=packages is not None)
    for place in (*_SYSTEM, *(f"/proc/{name}" for name in _FACTS), *python, *(() if packages is None else (str(packages),))):
        if os.path.exists(place):
            yield place


def _without(places: Sequence[str], denied: Sequence[str]) -> Iterator[str]:
    """The same places, but for some files: a folder around one of those is taken apart, as rights can only be added."""
    for place in places:
        if place in denied:
            continue
        if not any(file.startswith(f"{place}/") for file in denied):
            yield place
        else:
            yield from _without([entry.path for entry in os.scandir(place) if not entry.is_symlink()], denied)


def _closed(places: Sequence[str]) -> Iterator[str]:
    """Folders around them that only their owner may enter."""
    for place in places:
        for folder in reversed(Path(os.path.realpath(place)).parents):
            if not folder.stat().st_mode & 1:
                yield str(folder)


def _kernel_limits(limits: SandboxLimits, seconds: float | None) -> Mapping[str, Sequence[int]]:
    """What the kernel holds for each process: (soft, hard). Processes are counted by the watchdog alone, as the kernel would
    count all that the user runs anywhere.
    """
    cpu = max(limits.cpu, 0 if seconds is None else int(seconds) + 1)
    return {"RLIMIT_CPU": (cpu, cpu + 2), "RLIMIT_DATA": (2 * limits.memory,) * 2, "RLIMIT_FSIZE": (limits.file,) * 2,
            "RLIMIT_NOFILE": (limits.open_files,) * 2, "RLIMIT_CORE": (0, 0)}
