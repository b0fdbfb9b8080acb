"""The sandbox called `bubblewrap`: namespaces of Linux, without privileges (https://github.com/containers/bubblewrap).

Inside there is no network but an own loopback, no process but the command's, no user but `sop`, no home of anybody, and of
the disk: the system's programs and libraries and this Python, read-only, and the copy. Everything has the same place on
every machine, so that what a command prints is the same too.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Carrier
from metaflow_agents.sandbox.confined import MEND, Channel, Confined, gated
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.interpreter import interpreter_places, user_base
from metaflow_agents.sandbox.limits import Limits
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.reach import OUTSIDER, reached
from metaflow_agents.sandbox.shown import Shown

INSIDE = "/sop"
"""Where the copy lies inside: its files in `/sop/work`."""

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_ETC = ("/etc/ld.so.cache", "/etc/alternatives")
_WRITTEN = {
    "passwd": "root:x:0:0:root:/:/bin/false\nsop:x:1000:1000:sop:/sop/home:/bin/sh\n",
    "group": "root:x:0:\nsop:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_APART = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
          "--uid", "1000", "--gid", "1000", "--hostname", "sop", "--cap-drop", "ALL", "--new-session", "--die-with-parent")


class Bubblewrap(Carrier):
    """Commands confined by the program at `program`, each within `limits`.

    `environment`: what of the user's environment may be passed on (name → value): of it, TERM alone is. As root, a command
    runs as a user without rights.
    """

    name = "bubblewrap"

    def __init__(self, program: str, environment: Mapping[str, str], *, limits: Limits | None = None, parallel: int = 32) -> None:
        super().__init__(parallel=parallel)
        self.program, self.limits = program, limits or Limits()
        self._environment = {"TERM": environment["TERM"]} if "TERM" in environment else {}
        self.owner = OUTSIDER if os.geteuid() == 0 else None

    def group(self, copy: Copy, argv: Sequence[str], timeout: float | None) -> ProcessGroup:
        """A process inside, on the copy."""
        etc = self._etc(copy)
        seconds = self.limits.seconds if timeout is None else timeout
        channel = Channel()
        inner = (self.program, *self._options(copy, etc), "--info-fd", str(channel.told), "--",
                 *gated(argv, self.limits.in_shell(seconds)))
        whole, switches = inner, False
        if self.owner is not None:
            try:
                needed = (*(os.path.realpath(place) for place in self._places()), os.path.realpath(self.program))
                whole, switches = reached(self.program, inner, needed, str(copy.base))
            except OSError as error:
                channel.close()
                raise RunError(f"can't run commands as another user: {error.filename}: {error.strerror}: {MEND}") from error
        return Confined(whole, argv, channel, environment=self._variables(), limits=self.limits, timeout=seconds,
                        identity=None if switches else self.owner, folders=(copy.work, copy.home, copy.tmp))

    def shown(self, copy: Copy) -> Shown:
        """As `Unconfined` shows it."""
        return Shown(((f"{INSIDE}/work", "."), (INSIDE, "..")))

    @staticmethod
    def _places() -> tuple[str, ...]:
        return interpreter_places(("/usr", *(f"/{name}" for name in _SYSTEM if not os.path.islink(f"/{name}"))))

    def _variables(self) -> dict[str, str]:
        """Of the command, and of bubblewrap itself: what bubblewrap had could be read in `/proc/1/environ`."""
        beside = str(Path(sys.executable).parent)
        return self._environment | SAME_EVERYWHERE | user_base() | {
            "PATH": os.pathsep.join(dict.fromkeys((beside, *_PATH))), "HOME": f"{INSIDE}/home", "TMPDIR": f"{INSIDE}/tmp",
            "PWD": f"{INSIDE}/work"}

    def _etc(self, copy: Copy) -> Path:
        folder = copy.base / "etc"
        try:
            folder.mkdir()
            for name, text in _WRITTEN.items():
                (folder / name).write_text(text, encoding="ascii")
        except OSError as error:
            raise RunError(f"can't write to the folder for temporary files: {error.strerror}; make room there, then "
                           "`sop resume`") from error
        return folder

    def _options(self, copy: Copy, etc: Path) -> list[str]:
        """What bubblewrap is told to lay out, in the order in which it does."""
        known = features(self.program)
        options = [*_APART, *(["--disable-userns"] if "--disable-userns" in known else []), "--ro-bind", "/usr", "/usr"]
        for name in _SYSTEM:
            path = Path("/", name)
            if path.is_symlink():
                options += ["--symlink", os.readlink(path), str(path)]
            elif path.is_dir():
                options += ["--ro-bind", str(path), str(path)]
        for name in _ETC:
            options += ["--ro-bind-try", name, name]
        for name in _WRITTEN:
            options += ["--ro-bind", str(etc / name), f"/etc/{name}"]
        options += ["--proc", "/proc", "--dev", "/dev"]
        for place, size in (("/dev/shm", self.limits.shm), ("/tmp", self.limits.tmp)):
            # Without a bound it could fill the memory: then rather a folder that the watchdog looks at.
            options += (["--size", str(size), "--tmpfs", place] if "--size" in known else ["--bind", str(copy.tmp), place])
        options += ["--remount-ro", "/dev"]
        for place in self._places():
            options += ["--ro-bind", os.path.realpath(place), place]
        for folder in (copy.work, copy.home, copy.tmp):
            options += ["--bind", str(folder), f"{INSIDE}/{folder.name}"]
        return [*options, "--chdir", f"{INSIDE}/work", "--remount-ro", "/"]


@cache
def features(program: str) -> frozenset[str]:
    """The options that this bubblewrap knows and takes; none where it can't be asked."""
    with suppress(OSError, subprocess.SubprocessError):
        refused = {"--size"} if os.stat(program).st_mode & stat.S_ISUID else set()
        said = subprocess.run([program, "--help"], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10,
                              check=False)
        words = {word for line in said.stdout.splitlines() for word in line.split()[:1] if word.startswith("--")}
        return frozenset(words - refused)
    return frozenset()
