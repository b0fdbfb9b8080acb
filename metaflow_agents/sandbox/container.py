"""The sandbox called `container`: docker, podman, and programs that take the same options.

Each command gets a container of its own, of an image that the user built or pulled (nothing is fetched here), which is named by
its digest once it was looked at. Inside there is no network, no right, a root that can't be written, and of this machine the
copy alone: the Python is the image's. Where the program's machine is another one, as on macOS and Windows, files and outputs come
through it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bridging
from metaflow_agents.sandbox.boxed import Boxed
from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Order
from metaflow_agents.sandbox.confined import MEND
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.denied import denied_files
from metaflow_agents.sandbox.engines import IMAGE
from metaflow_agents.sandbox.interpreter import python_version
from metaflow_agents.sandbox.limited import OUTSIDER, Limited
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.profile import profile
from metaflow_agents.sandbox.sanitised import PACKAGES, OutputSanitiser
from metaflow_agents.texts.strict_json import read

LABEL = "metaflow-agents"
INSIDE = "/sop"
_PACKAGES, _LAID_OUT = f"{INSIDE}/packages", "/tmp/.packages"
_ASKED_SECONDS = 60.0
_PROCESSES = 16384                  # of one user on the whole machine; those of a container are counted by its control group


class Container(Limited):
    """Commands in containers, each within `limits`. `program`: as `Engine.found` tells it, with its `environment`. `image`: a
    digest.
    """

    name = "container"

    def __init__(self, program: str, image: str, environment: Mapping[str, str], *, limits: SandboxLimits | None = None,
                 parallel: int = 32) -> None:
        super().__init__(limits, parallel)
        self.program, self.image = program, image
        self._environment = dict(environment)

    def group(self, copy: Copy, order: Order) -> ProcessGroup:
        """A container that is about to start on the copy."""
        if order.packages is not None and not sys.platform.startswith("linux"):
            raise RunError("packages are chosen for this machine, and containers run another system: leave `packages` out, or "
                           "run the SOP in Linux")
        name = f"sop-{os.getpid()}-{os.urandom(6).hex()}"
        job = {"channel": None if order.channel is None else order.channel.theirs.fileno(), "limits": self._ulimits(order),
               "proxy": None if order.proxy is None else (f"{INSIDE}/bridge.py", f"{INSIDE}/proxy", bridging.PORT),
               "packages": None if order.packages is None else (_PACKAGES, _LAID_OUT, python_version())}
        argv = (*self._begin(copy, order, name), self.image, "-I", "-S", "-c", _script(), json.dumps(job), *_inside(order.argv))
        return Boxed(argv, order.argv, environment=self._environment, remove=lambda: self._remove(name), limits=self.limits,
                     timeout=self.seconds(order), channel=order.channel, folders=(copy.work, copy.home, copy.tmp))

    def shown(self, copy: Copy, packages: Path | None = None) -> OutputSanitiser:
        """As `Bubblewrap` shows it."""
        return OutputSanitiser(((f"{INSIDE}/work", "."), (INSIDE, ".."), (_PACKAGES, PACKAGES), (_LAID_OUT, PACKAGES)))

    def _begin(self, copy: Copy, order: Order, name: str) -> list[str]:
        limits, podman = self.limits, is_podman(self.program)
        user = self.owner if self.owner is not None else getattr(os, "getuid", lambda: OUTSIDER)()
        temporary = f"/tmp:rw,nosuid,nodev,exec,mode=1777,size={limits.tmp}" + ("" if podman else f",nr_inodes={limits.entries}")
        options = [
            self.program, "run", "--rm", "--interactive", "--name", name, "--label", f"{LABEL}={os.getpid()}", "--pull", "never",
            "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
            "--security-opt", f"seccomp={_filter(copy)}", "--hostname", "sop",
            "--user", f"{user}:{user}", "--memory", str(limits.memory), "--memory-swap", str(limits.memory),
            "--pids-limit", str(limits.processes + (1 if order.proxy is None else _OURS)), "--shm-size", str(limits.shm),
            "--tmpfs", temporary,
            "--ulimit", f"nofile={limits.open_files + _OURS}", "--ulimit", "core=0", *_processes(), "--workdir", f"{INSIDE}/work",
            "--entrypoint", "python3"]
        if podman:
            options += ["--read-only-tmpfs=false", *(["--userns", "keep-id"] if self.owner is None else [])]
        for folder in (copy.work, copy.home, copy.tmp):
            options += ["--mount", f"type=bind,source={folder},target={INSIDE}/{folder.name}"]
        if order.packages is not None:
            options += ["--mount", f"type=bind,source={order.packages},target={_PACKAGES},readonly"]
        if order.proxy is not None:
            options += self._bridged(copy, order.proxy)
        if order.denied:
            options += self._without(copy, order.denied)
        for variable, value in self._variables(order).items():
            options += ["--env", f"{variable}={value}"]
        return options

    def _remove(self, name: str) -> None:
        """End a container and remove it, where it is still there."""
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([self.program, "rm", "--force", name], env=self._environment, stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=_ASKED_SECONDS, check=False)

    def _bridged(self, copy: Copy, proxy: Path) -> list[str]:
        script = copy.base / "bridge.py"
        try:
            script.write_bytes(bridging.source())
            script.chmod(0o644)
            if self.owner is not None:                  # the folder around the socket keeps others from it, not its mode
                proxy.chmod(0o666)
        except OSError as error:
            raise RunError(f"the proxy's socket {proxy} can't be used: {error.strerror}; try again: `sop resume`") from error
        return [word for source, name in ((script, "bridge.py"), (proxy, "proxy"))
                for word in ("--mount", f"type=bind,source={source},target={INSIDE}/{name},readonly")]

    def _without(self, copy: Copy, denied: tuple[str, ...]) -> list[str]:
        """In place of denied programs lies a file that can't be read or started. The image's Python stays, as it starts every
        command.
        """
        listed = programs(self.program, self.image, tuple(self._environment.items()))
        nothing = copy.base / "nothing"
        try:
            nothing.touch(mode=0)
        except OSError as error:
            raise RunError(f"can't write to the folder for temporary files: {error.strerror}; make room there, then `sop resume`"
                           ) from error
        places = denied_files(denied, listed[1:], listed[0][1])
        return [word for place in places for word in ("--mount", f"type=bind,source={nothing},target={place},readonly")]

    def _variables(self, order: Order) -> dict[str, str]:
        proxied = {} if order.proxy is None else bridging.variables(bridging.PORT)
        return SAME_EVERYWHERE | proxied | {"HOME": f"{INSIDE}/home", "TMPDIR": f"{INSIDE}/tmp", "PWD": f"{INSIDE}/work"}

    def _ulimits(self, order: Order) -> Mapping[str, int]:
        limits = self.limits
        cpu = max(limits.cpu, 0 if order.timeout is None else int(order.timeout) + 1)
        return {"RLIMIT_CPU": cpu, "RLIMIT_DATA": 2 * limits.memory, "RLIMIT_FSIZE": limits.file,
                "RLIMIT_NOFILE": limits.open_files, "RLIMIT_CORE": 0}


_LISTED = """
import json, os, stat, sys
def told(path):
    there = os.stat(path)
    return path, os.path.realpath(path), there.st_dev, there.st_ino
found = [told(sys.executable)]
for folder, folders, files in os.walk("/"):
    folders[:] = [one for one in folders if not (folder == "/" and one in ("proc", "sys", "dev"))]
    for name in files:
        path = os.path.join(folder, name)
        try:
            mode = os.stat(path).st_mode
            found += [told(path)] if stat.S_ISREG(mode) and mode & 0o111 else []
        except OSError:
            continue
print(json.dumps(found))
"""
_OURS = 8                           # processes and descriptors of the first process inside, and of the bridge


def _inside(argv: Sequence[str]) -> tuple[str, ...]:
    """`python` is the image's."""
    return ("python3" if argv[0] == sys.executable else argv[0], *argv[1:])


def _filter(copy: Copy) -> Path:
    """The file that the program reads the filter of system calls from."""
    file = copy.base / "seccomp.json"
    try:
        file.write_text(profile(), encoding="ascii")
    except OSError as error:
        raise RunError(f"can't write to the folder for temporary files: {error.strerror}; make room there, then `sop resume`"
                       ) from error
    return file


def _processes() -> tuple[str, ...]:
    """Podman sets a limit of its own, which it may not be allowed to."""
    if not sys.platform.startswith("linux"):
        return ()
    import resource

    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    fitting = _PROCESSES if most == resource.RLIM_INFINITY else min(most, _PROCESSES)
    return "--ulimit", f"nproc={fitting}:{fitting}"


def asked(program: str, *arguments: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and words of the program, asked about something."""
    try:
        done = subprocess.run([program, *arguments], env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=_ASKED_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return 126, str(error)
    return done.returncode, (done.stdout.strip() or done.stderr.strip()) if done.returncode == 0 else done.stderr.strip()


@cache
def programs(program: str, image: str, environment: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str, int, int], ...]:
    """The programs of an image: (path, what it leads to, disk, inode) of each, its Python first. Raises RunError."""
    code, said = asked(program, "run", "--rm", "--pull", "never", "--network", "none", "--read-only", *_processes(), "--ulimit",
                       "nofile=1024", "--entrypoint", "python3", image, "-I", "-S", "-c", _LISTED, environment=dict(environment))
    if code:
        raise RunError(f"{program} can't list the programs of its image, of which rules deny some ({said[-300:]}): {MEND}")
    try:
        return tuple((str(path), str(real), int(disk), int(inode)) for path, real, disk, inode in read(said))
    except (TypeError, ValueError) as error:
        raise RunError(f"the list of programs of the image {image} can't be read ({error}): {MEND}") from None


@cache
def is_podman(program: str) -> bool:
    """Whether it is podman, under whatever name: it knows no limit of inodes."""
    return "podman" in asked(program, "--version", environment={"PATH": os.defpath})[1].lower()


def build_line(program: str, image: str) -> str:
    """What makes the image: this Python's version, and pytest."""
    from importlib.metadata import version

    base = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
    if image != IMAGE:
        return f"{program} pull {image}"
    packages = f"pytest=={version('pytest')} pytest-asyncio setuptools"
    return f"printf 'FROM {base}\\nRUN pip install --no-cache-dir {packages}\\n' | {program} build -t {IMAGE} -"


@cache
def _script() -> str:
    return Path(__file__).with_name("contained.py").read_text(encoding="utf-8")
