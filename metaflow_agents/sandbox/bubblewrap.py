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
from metaflow_agents.sandbox import bridging
from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Order
from metaflow_agents.sandbox.cgroup import group_parent
from metaflow_agents.sandbox.confined import MEND, Confined, SandboxPlace, gated
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.denied import ProcessTree, denied_places, hides
from metaflow_agents.sandbox.interpreter import interpreter_places, user_base
from metaflow_agents.sandbox.limited import OUTSIDER, Filtered
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.sanitised import PACKAGES, OutputSanitiser

INSIDE = "/sop"
"""Where the copy lies inside: its files in `/sop/work`."""
_PACKAGES = f"{INSIDE}/packages"
_PROXY, _BRIDGE = f"{INSIDE}/proxy", f"{INSIDE}/bridge.py"
_SHELL, _HELD_SHELL = "/bin/sh", f"{INSIDE}/sh"

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_IN_MEMORY = ("/dev/shm", "/tmp")
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


class Bubblewrap(Filtered):
    """Commands confined by the program at `program`, each within `limits`."""

    name = "bubblewrap"

    def __init__(
        self, program: str, environment: Mapping[str, str], *, limits: SandboxLimits | None = None, parallel: int = 32
    ) -> None:
        super().__init__(environment, limits=limits, parallel=parallel)
        self.program = program

    def group(self, copy: Copy, order: Order) -> ProcessGroup:
        """A process inside, on the copy."""
        before = "" if order.proxy is None else bridging.started_before(_BRIDGE, _PROXY)
        without = self._without(order)
        laid_out = self._laid_out(copy, order)
        environment = self._variables(order)
        filtering = _filled(self._filter)
        descriptors = {filtering} | ({order.channel.theirs.fileno()} if order.channel is not None else set())
        spare = max(set(range(3, 10)) - descriptors) if hides(without, _SHELL, self._trees(order)) else 0
        gate = gated(order.argv, f"{f'exec {spare}<&-' if spare else ''}\n{self.limits.in_shell(order.timeout)}", before,
                     _HELD_SHELL if spare else _SHELL)
        return Confined((*self._begin(laid_out, without, filtering, spare), *gate), order.argv,
                        environment=environment, limits=self.limits, timeout=self.seconds(order), descriptors=(filtering,),
                        channel=order.channel, place=SandboxPlace((copy.work, copy.home, copy.tmp), group_parent(),
                                                           _IN_MEMORY if self._bounds_memory() else ()))

    def _bounds_memory(self) -> bool:
        """Whether this bubblewrap makes file systems in memory that have a size."""
        return features(self.program) >= {"--size", "--perms"}

    def _begin(self, laid_out: list[str], without: tuple[str, ...], filtering: int, spare: int) -> list[str]:
        """Both bubblewraps and their options. One with the setuid bit works once: it gives up its rights for good.

        `without`: places of files that are taken away. The second one does that, when what is needed before has been started.
        `spare`: the shell that becomes the command is among them, and is held by a descriptor of this number.
        """
        closed = ["--disable-userns"] if "--disable-userns" in features(self.program) else []
        own = [*_USER, *closed, "--seccomp", str(filtering)]
        taken_away = [option for place in without for option in ("--ro-bind", "/dev/null", place)]
        if spare:
            laid_out = [*laid_out[:-2], "--symlink", f"/proc/self/fd/{spare}", _HELD_SHELL, *laid_out[-2:]]
        if self.owner is None and _has_setuid(self.program):
            if spare:
                raise RunError(f"`{_SHELL}` can't be denied where {self.program} has the setuid bit: remove the rule, or the bit")
            return [self.program, *own, *_APART, *laid_out, *taken_away, "--"]
        first, switch = (list(_USER), []) if self.owner is None else (list(_SWITCH), [_setpriv(), *_SWITCHED, "--"])
        holding = [_SHELL, "-c", f'exec {spare}<{_SHELL}; exec "$@"', "sh"] if spare else []
        return [self.program, *_APART, *first, *laid_out, "--", *holding, *switch,
                self.program, *own, "--cap-drop", "ALL", "--dev-bind", "/", "/", *taken_away, "--chdir", f"{INSIDE}/work", "--"]

    def _without(self, order: Order) -> tuple[str, ...]:
        """Where the files of denied programs lie inside. The interpreter of a session is another matter, and stays."""
        if not order.denied:
            return ()
        without = denied_places(order.denied, self._trees(order), sys.executable if order.channel is not None else "")
        if order.proxy is not None and hides(without, sys.executable, self._trees(order)):
            raise RunError("a rule denies Python to commands that may reach hosts (`connect`), which they do through a process "
                           "of Python inside: remove one of the two rules")
        return without

    def _trees(self, order: Order) -> tuple[ProcessTree, ...]:
        """What is shown inside, but for the copy."""
        system = ("/usr", *(f"/{name}" for name in _SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()))
        packages = () if order.packages is None else (ProcessTree(str(order.packages), _PACKAGES),)
        return (*(ProcessTree(os.path.realpath(place), place) for place in (*system, *self._places(order))), *packages)

    def shown(self, copy: Copy, packages: Path | None = None) -> OutputSanitiser:
        """As `Unconfined` shows it."""
        return OutputSanitiser(((f"{INSIDE}/work", "."), (INSIDE, ".."), (_PACKAGES, PACKAGES)))

    def _variables(self, order: Order) -> dict[str, str]:
        """Of the command, and of bubblewrap itself: what bubblewrap had could be read in `/proc/1/environ`."""
        beside = str(Path(sys.executable).parent) if order.packages is None else f"{_PACKAGES}/bin"
        proxied = {} if order.proxy is None else bridging.variables(bridging.PORT)
        return self._environment | SAME_EVERYWHERE | user_base() | proxied | {
            "PATH": os.pathsep.join(dict.fromkeys((beside, *_PATH))), "HOME": f"{INSIDE}/home", "TMPDIR": f"{INSIDE}/tmp",
            "PWD": f"{INSIDE}/work"}

    def _laid_out(self, copy: Copy, order: Order) -> list[str]:
        """What bubblewrap is told to lay out, in the order in which it does."""
        etc = _etc(copy)
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
        for place, size in zip(_IN_MEMORY, (self.limits.shm, self.limits.tmp), strict=True):
            # Without a bound it could fill the memory: then rather a folder that the watchdog looks at.
            options += (["--perms", "1777", "--size", str(size), "--tmpfs", place] if self._bounds_memory()
                        else ["--bind", str(copy.tmp), place])
        options += ["--remount-ro", "/dev"]
        for place in self._places(order):
            options += [*_parents(place), *_shown_at(place)]
        options += ["--dir", INSIDE]
        for folder in (copy.work, copy.home, copy.tmp):
            options += ["--bind", str(folder), f"{INSIDE}/{folder.name}"]
        if order.packages is not None:
            options += ["--ro-bind", str(order.packages), _PACKAGES]
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

    def _places(self, order: Order) -> Iterator[str]:
        """What is shown where it lies: this Python, or for packages that which it is based on; for the second bubblewrap, that
        program. The bridge to a proxy is run by this Python.
        """
        there = ("/usr", *(f"/{name}" for name in _SYSTEM))
        yield from interpreter_places(there, based=order.packages is not None and order.proxy is None)
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
