"""The sandbox called `bubblewrap`: namespaces of Linux (https://github.com/containers/bubblewrap).

Inside there is no network but an own loopback, no process but the command's, no user but `sop`, no home of anybody, and of
the disk: the system's programs and libraries and this Python, read-only, and the copy. Everything has the same place on
every machine, so that what a command prints is the same too.

It is done in two stages. The first bubblewrap lays everything out, for an ordinary user in a user namespace; for root with
root's own rights, since the Python of root may lie where nobody else may walk, and then it becomes a user without any. The second
one, inside, has a user namespace of its own and the filter of system calls. So the first process inside, which ends
everything when we are gone, belongs to another user namespace: the command can't look into it, nor change it.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bridging, seccomp
from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Carrier, Order
from metaflow_agents.sandbox.cgroup import group_parent
from metaflow_agents.sandbox.confined import MEND, Confined, gated
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.interpreter import interpreter_places, user_base
from metaflow_agents.sandbox.limits import Limits
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.shown import Shown

INSIDE = "/sop"
"""Where the copy lies inside: its files in `/sop/work`."""
_PROXY, _BRIDGE = f"{INSIDE}/proxy", f"{INSIDE}/bridge.py"
OUTSIDER = 65533
"""As root: the user and group id of commands. No account and no service has it, unlike that of `nobody`."""

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_ETC = ("ld.so.cache", "alternatives")
_WRITTEN = {
    "passwd": "root:x:0:0:root:/:/bin/false\nsop:x:1000:1000:sop:/sop/home:/bin/sh\n",
    "group": "root:x:0:\nsop:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_APART = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sop",
          "--new-session", "--die-with-parent", "--cap-drop", "ALL")
_USER = ("--unshare-user", "--uid", "1000", "--gid", "1000")
_SWITCH = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
_SWITCHED = (f"--reuid={OUTSIDER}", f"--regid={OUTSIDER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")


class Bubblewrap(Carrier):
    """Commands confined by the program at `program`, each within `limits`.

    `environment`: what of the user's environment may be passed on (name → value): of it, TERM alone is.
    """

    name = "bubblewrap"

    def __init__(self, program: str, environment: Mapping[str, str], *, limits: Limits | None = None, parallel: int = 32) -> None:
        super().__init__(parallel=parallel)
        self.program, self.limits = program, limits or Limits()
        self._environment = {"TERM": environment["TERM"]} if "TERM" in environment else {}
        self.owner = OUTSIDER if os.geteuid() == 0 else None
        self.room = 2 * self.limits.memory
        self._filter = seccomp.program()

    def group(self, copy: Copy, order: Order) -> ProcessGroup:
        """A process inside, on the copy."""
        talks = order.channel is not None
        seconds = self.limits.seconds if order.timeout is None and not talks else order.timeout
        before = "" if order.proxy is None else bridging.started_before(_BRIDGE, _PROXY)
        laid_out = self._laid_out(copy, order)
        environment = self._variables(order)
        filtering = _filled(self._filter)
        begin = self._begin(laid_out, filtering)
        return Confined((*begin, *gated(order.argv, self.limits.in_shell(order.timeout), before)), order.argv,
                        environment=environment, limits=self.limits, timeout=seconds, descriptors=(filtering,),
                        folders=(copy.work, copy.home, copy.tmp), parent=group_parent(), channel=order.channel)

    def _begin(self, laid_out: list[str], filtering: int) -> list[str]:
        """Both bubblewraps and their options. One with the setuid bit works once: it gives up its rights for good."""
        closed = ["--disable-userns"] if "--disable-userns" in features(self.program) else []
        own = [*_USER, *closed, "--seccomp", str(filtering)]
        if self.owner is None and _has_setuid(self.program):
            return [self.program, *own, *_APART, *laid_out, "--"]
        first, switch = (list(_USER), []) if self.owner is None else (list(_SWITCH), [_setpriv(), *_SWITCHED, "--"])
        return [self.program, *_APART, *first, *laid_out, "--", *switch,
                self.program, *own, "--cap-drop", "ALL", "--dev-bind", "/", "/", "--chdir", f"{INSIDE}/work", "--"]

    def shown(self, copy: Copy) -> Shown:
        """As `Unconfined` shows it."""
        return Shown(((f"{INSIDE}/work", "."), (INSIDE, "..")))

    def _variables(self, order: Order) -> dict[str, str]:
        """Of the command, and of bubblewrap itself: what bubblewrap had could be read in `/proc/1/environ`."""
        beside = str(Path(sys.executable).parent)
        proxied = {} if order.proxy is None else bridging.variables(bridging.PORT)
        return self._environment | SAME_EVERYWHERE | user_base() | proxied | {
            "PATH": os.pathsep.join(dict.fromkeys((beside, *_PATH))), "HOME": f"{INSIDE}/home", "TMPDIR": f"{INSIDE}/tmp",
            "PWD": f"{INSIDE}/work"}

    def _laid_out(self, copy: Copy, order: Order) -> list[str]:
        """What bubblewrap is told to lay out, in the order in which it does."""
        etc, known = _etc(copy), features(self.program)
        options = ["--ro-bind", "/usr", "/usr"]
        for name in _SYSTEM:
            path = Path("/", name)
            if path.is_symlink():
                options += ["--symlink", os.readlink(path), str(path)]
            elif path.is_dir():
                options += ["--ro-bind", str(path), str(path)]
        options += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", str(etc), "/etc"]
        for name in os.listdir(etc):
            options += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"] if name in _ETC else []
        for place, size in (("/dev/shm", self.limits.shm), ("/tmp", self.limits.tmp)):
            # Without a bound it could fill the memory: then rather a folder that the watchdog looks at.
            options += (["--perms", "1777", "--size", str(size), "--tmpfs", place] if {"--size", "--perms"} <= known
                        else ["--bind", str(copy.tmp), place])
        options += ["--remount-ro", "/dev"]
        for place in self._places():
            options += [*_parents(place), *_shown_at(place)]
        options += ["--dir", INSIDE]
        for folder in (copy.work, copy.home, copy.tmp):
            options += ["--bind", str(folder), f"{INSIDE}/{folder.name}"]
        if order.proxy is not None:
            options += self._bridged(copy, order.proxy)
        return [*options, "--chdir", f"{INSIDE}/work", "--remount-ro", "/"]

    def _bridged(self, copy: Copy, proxy: Path) -> list[str]:
        """The proxy's socket and what joins it with the command's own loopback. Root's commands are somebody else: the folder
        around the socket keeps others from it, not its mode.
        """
        script = copy.base / "bridge.py"
        _written(script, bridging.source())
        if self.owner is not None:
            try:
                proxy.chmod(0o666)
            except OSError as error:
                raise RunError(f"the proxy's socket {proxy} can't be used: {error.strerror}; try again: `sop resume`") from error
        return ["--ro-bind", str(script), _BRIDGE, "--ro-bind", str(proxy), _PROXY]

    def _places(self) -> Iterator[str]:
        """What is shown where it lies: this Python; for the second bubblewrap, that program."""
        there = ("/usr", *(f"/{name}" for name in _SYSTEM))
        yield from interpreter_places(there)
        if not self.program.startswith(tuple(f"{place}/" for place in there)):
            yield self.program


def _shown_at(place: str) -> tuple[str, str, str]:
    """The option that shows what lies at a place; a link to what lies beside it (`lib64`) is a link inside too."""
    if os.path.islink(place) and os.path.basename(place) == "lib64" and os.readlink(place) == "lib":
        return "--symlink", "lib", place
    return "--ro-bind", os.path.realpath(place), place


def _parents(place: str) -> Iterator[str]:
    """Options that make the folders around a place: else bubblewrap makes some of them for its own user alone."""
    for folder in reversed(Path(place).parents):
        if str(folder) not in ("/", "/tmp"):
            yield from ("--dir", str(folder))


def _etc(copy: Copy) -> Path:
    """A folder with what programs look for in `/etc`, in place of this machine's; what is taken from there is empty in it."""
    folder = copy.base / "etc"
    if folder.exists():                                 # of a process on the same copy before this one
        return folder
    try:
        folder.mkdir()
        folder.chmod(0o755)                             # whatever the umask is: root's commands are somebody else
        for name in _ETC:
            if Path("/etc", name).is_dir():
                (folder / name).mkdir()
            elif Path("/etc", name).is_file():
                (folder / name).touch()
    except OSError as error:
        raise _no_room(error) from error
    for name, text in _WRITTEN.items():
        _written(folder / name, text.encode("ascii"))
    return folder


def _written(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
        file.chmod(0o644)
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> RunError:
    return RunError(f"can't write to the folder for temporary files: {error.strerror}; make room there, then `sop resume`")


def _filled(data: bytes) -> int:
    """A descriptor to read these few bytes from."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading


def _setpriv() -> str:
    """The program that changes the user, inside."""
    found = shutil.which("setpriv", path=os.pathsep.join(_PATH))
    if found is None:
        raise RunError(f"root's commands run as a user without rights, and `setpriv` (of util-linux) is missing: {MEND}")
    return found


def _has_setuid(program: str) -> bool:
    with suppress(OSError):                             # that it is gone is told when it is started
        return bool(os.stat(program).st_mode & stat.S_ISUID)
    return False


@cache
def features(program: str) -> frozenset[str]:
    """The options that this bubblewrap knows and takes; none where it can't be asked."""
    with suppress(OSError, subprocess.SubprocessError):
        refused = {"--size"} if _has_setuid(program) else set()
        said = subprocess.run([program, "--help"], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10,
                              check=False)
        words = {word for line in said.stdout.splitlines() for word in line.split()[:1] if word.startswith("--")}
        return frozenset(words - refused)
    return frozenset()
