"""Whether a sandbox holds here: looked at once in a process, by a command that tries to get out."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from metaflow_agents.errors import MetaflowError
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.carrier import Carrier
from metaflow_agents.sandbox.copies import removed
from metaflow_agents.sandbox.install_hints import install_line, unlock_line
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.texts.strict_json import read

if TYPE_CHECKING:
    from metaflow_agents.sandbox.engines import Engine

KERNEL = "run it on a kernel from 6.12 on in which Landlock is switched on (`landlock` in /sys/kernel/security/lsm)"
_SECONDS = 30.0
_PROCESSES = 10             # that the canary may have; it tries to have 16 more, each of which ends by itself
Make = Callable[[Mapping[str, str], SandboxLimits], Carrier]


@dataclass(frozen=True, slots=True)
class SandboxHolding:
    """What was found. `program`: what confines, where it holds; else `why` it does not and the `mend`, a line to run or do.
    `attempts`: what a command tried to get away with, and whether that was refused; nothing where none could be started.
    `image`: of containers, the digest of the one that was looked at.
    """

    program: str | None
    why: str = ""
    mend: str = ""
    attempts: tuple[tuple[str, bool], ...] = ()
    image: str = ""


def bubblewrap_holds(path: str | None) -> SandboxHolding:
    """Whether commands can be confined by bubblewrap here. `path`: the PATH to look along."""
    return _holds(shutil.which("bwrap", path=path))


@cache
def _holds(program: str | None) -> SandboxHolding:
    if not sys.platform.startswith("linux"):
        return SandboxHolding(None, f"bubblewrap is there for Linux alone, and this is {sys.platform}",
                       "run it on Linux, or in a virtual machine with Linux")
    if program is None:
        return SandboxHolding(None, "bubblewrap is not installed", install_line())
    return _looked(program, unlock_line(), lambda environment, limits: Bubblewrap(program, environment, limits=limits))


@cache
def landlock_holds() -> SandboxHolding:
    """Whether commands can be confined by Landlock here."""
    from metaflow_agents.sandbox.landlock import Landlock, missing

    lacking = missing()
    if lacking is not None:
        return SandboxHolding(None, *lacking)
    return _looked("Landlock", KERNEL, lambda environment, limits: Landlock(environment, limits=limits), spaces=False)


@cache
def container_holds(engine: Engine) -> SandboxHolding:
    """Whether commands can be confined in containers here: by the first program that works."""
    from metaflow_agents.sandbox.engines import PROGRAMS

    programs = engine.found()
    if not programs:
        named = (f"none of {', '.join(PROGRAMS)} is" if not engine.program
                 else f"`{engine.program}`, which SOP_CONTAINER names, is not")
        return SandboxHolding(None, f"{named} installed", "install docker or podman, and start it")
    first: SandboxHolding | None = None
    for program in programs:
        found = _contained(engine, program)
        if found.program is not None:
            return found
        first = first or found
    return first or SandboxHolding(None)


def _contained(engine: Engine, program: str) -> SandboxHolding:
    from metaflow_agents.sandbox.container import Container, asked, build_line

    environment = dict(engine.environment)
    code, said = asked(program, "info", environment=environment)
    if code:
        return SandboxHolding(None, f"{program} does not work: {said.splitlines()[-1] if said else f'exit {code}'}",
                       f"`{program} info` has to work: it says what keeps it from it")
    code, image = asked(program, "image", "inspect", "--format", "{{.Id}}", engine.wanted, environment=environment)
    if code:
        return SandboxHolding(None, f"{program} has no image `{engine.wanted}`", build_line(program, engine.wanted))
    mend = f"`{program} run --rm --network none --read-only {engine.wanted} python3 --version` has to work"
    return _looked(program, mend, lambda _, limits: Container(program, image, environment, limits=limits), image=image)


def _looked(program: str, mend: str, make: Make, *, spaces: bool = True, image: str = "") -> SandboxHolding:
    """What comes of a command that tries to get out of what `make` makes, for an environment and limits. `spaces`: it has
    namespaces.
    """
    try:
        attempts = tuple(_tried(make, spaces).items())
    except MetaflowError as error:
        return SandboxHolding(None, str(error).partition(": `sop doctor`")[0], mend)
    if said := ", ".join(what for what, refused in attempts if not refused):
        return SandboxHolding(None, f"{program} does not work: {said}", mend, attempts)
    return SandboxHolding(program, attempts=attempts, image=image)


def _tried(make: Make, spaces: bool) -> dict[str, bool]:
    """What the canary tried, and whether it was refused. Raises RunError where it can't be started."""
    folder = Path(tempfile.mkdtemp(prefix="sop-outside-"))
    try:
        folder.chmod(0o755)                             # what keeps it out must be the sandbox, not the mode of a file
        planted, text = folder / "planted", os.urandom(16).hex()
        planted.write_text(text, encoding="ascii")
        planted.chmod(0o666)
        with socket.create_server(("127.0.0.1", 0)) as server, _listening(Path(f"{planted}.s")) as beside:
            server.setblocking(False)
            secret = os.urandom(16).hex()
            argv = ("python", "-c", _canary(), str(planted), str(server.getsockname()[1]), secret[::-1],
                    "namespaces" if spaces else "none", str(os.getpid()))
            done = make({"SOP_PLANTED": secret}, SandboxLimits(processes=_PROCESSES)).carry_out(argv, files={}, timeout=_SECONDS)
            called, connected = _called(server), beside is not None and _called(beside)
        told, _, forked = done.stdout.partition("\n")
        try:
            tried = {str(what): refused is True for what, refused in read(told).items()}
        except (ValueError, AttributeError):
            said = (done.stderr or done.stdout).strip()[-300:] or f"exit code {done.exit_code}"
            return {f"this Python does not run inside: {said}": False}
        there = planted.stat()
        seen = {"it starts more processes than it may": forked.strip() == "16", "it reaches the network of this machine": called,
                "it reaches sockets of this machine": connected,
                "it writes files of this machine": planted.read_text(encoding="ascii") != text,
                "it changes files of this machine": there.st_mode & 0o777 != 0o666 or there.st_mtime == 1}
        return tried | {what: tried.get(what, True) and not happened for what, happened in seen.items()}
    finally:
        removed(folder)


@contextmanager
def _listening(place: Path) -> Iterator[socket.socket | None]:
    """A Unix socket that everybody may connect to; None where there are none, or a path may not be so long."""
    if not hasattr(socket, "AF_UNIX") or len(str(place)) > 100:
        yield None
        return
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        place.chmod(0o666)
        server.listen()
        server.setblocking(False)
        yield server


@cache
def _canary() -> str:
    return Path(__file__).with_name("canary.py").read_text(encoding="utf-8")


def _called(server: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True
