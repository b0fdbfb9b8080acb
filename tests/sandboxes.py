"""What tests of sandboxes share: which of them work here, who carries commands out, and who still runs."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from metaflow_agents.sandbox import probe
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.carrier import Carrier
from metaflow_agents.sandbox.container import Container
from metaflow_agents.sandbox.engines import Engine
from metaflow_agents.sandbox.interpreter import interpreter_places
from metaflow_agents.sandbox.landlock import Landlock
from metaflow_agents.sandbox.limited import OUTSIDER
from metaflow_agents.sandbox.limits import SandboxLimits
from metaflow_agents.settings import Settings

_TRIAL = ("--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true")


def _lacking() -> str:
    """Why bubblewrap can't work here, whatever this package makes of it; nothing where it can."""
    if not BWRAP:
        return "bubblewrap is not installed"
    done = subprocess.run([BWRAP, *_TRIAL], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bubblewrap can't work here: {done.stderr.strip()}"


BWRAP = shutil.which("bwrap") or ""
LACKING = _lacking()
needs_bubblewrap = pytest.mark.skipif(bool(LACKING), reason=LACKING)
SETTINGS = Settings.read()
ENGINE = Engine(SETTINGS.container, SETTINGS.container_image, tuple(SETTINGS.container_environment.items()))


def made(backend: str, environment: Mapping[str, str], **limits: int) -> Carrier:
    """The sandbox of that name."""
    if backend == "bubblewrap":
        return Bubblewrap(BWRAP, environment, limits=SandboxLimits(**limits))
    if backend == "landlock":
        return Landlock(environment, limits=SandboxLimits(**limits))
    program = probe.container_holds(ENGINE).program or ""
    return Container(program, ENGINE.wanted, dict(ENGINE.environment), limits=SandboxLimits(**limits))


@cache
def no_containers() -> str:
    """Why there are no containers here; nothing where there are."""
    return probe.container_holds(ENGINE).why


@cache
def no_landlock() -> str:
    """Why this kernel can't hold commands by Landlock, whoever asks; nothing where it can."""
    code = "import sandlock, sys; sys.exit(sandlock.landlock_abi_version() < sandlock.min_landlock_abi())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"there is no Landlock here, or it is too old: {done.stderr[-200:]}"


def running(marker: str) -> list[int]:
    """Living processes (no zombies) whose command line names the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if marker in line:
                found.append(int(entry.name))
    return found


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def comes(marker: str) -> bool:
    for _ in range(500):
        if running(marker):
            return True
        await asyncio.sleep(0.02)
    return False


async def gone(marker: str) -> bool:
    for _ in range(250):
        if not running(marker):
            return True
        await asyncio.sleep(0.02)
    return False


def facts_of(pid: int) -> dict[str, str]:
    """What `/proc` tells of a process; nothing where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def temporary_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a folder in it the one for temporary files."""
    made = folder / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


_ORDINARY = """
set -e
mkdir "$HOME/stage"
for closed in $CLOSED; do
    mkdir "$HOME/stage/$(basename "$closed")"
    mount --rbind "$closed" "$HOME/stage/$(basename "$closed")"
    mount -t tmpfs -o mode=755 shown "$closed"
done
for place in $PLACES; do
    for closed in $CLOSED; do
        case "$place" in "$closed"/*)
            hidden="$HOME/stage/$(basename "$closed")${place#"$closed"}"
            if [ -d "$hidden" ]; then mkdir -p "$place"; else mkdir -p "$(dirname "$place")"; touch "$place"; fi
            mount --rbind "$hidden" "$place" ;;
        esac
    done
done
cd /
[ "$ID" != 0 ] || exec "$@"
exec setpriv --reuid="$ID" --regid="$ID" --clear-groups --inh-caps=-all --bounding-set=-all -- "$@"
"""


def by_an_ordinary_user(arguments: Sequence[str], home: Path, *, user: int = OUTSIDER, namespaces: bool = True,
                        ) -> subprocess.CompletedProcess[str]:
    """This Python with arguments, as root starts it for a user who is let through to it, its packages and this repository,
    is nobody else, and has `home` for all that is temporary. `user`: 0 is root, for whom only the way is opened to others.
    `namespaces`: whether any can be made.
    """
    closing = Path(__file__).with_name("no_namespaces.py")
    program = [sys.executable] if namespaces else [sys.executable, str(closing), sys.executable]
    repository = Path(__file__).parent.parent               # its package, and not the one that this Python finds by itself
    places = [os.path.realpath(place) for place in (*interpreter_places(), repository)]
    closed = {next((str(folder) for folder in reversed(Path(place).parents) if not folder.stat().st_mode & 1), "")
              for place in places}
    os.chown(home, user, user)
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "slave", "sh", "-c", _ORDINARY, "sh", *program, *arguments],
        env={"PATH": os.defpath, "TMPDIR": str(home), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": str(repository), "ID": str(user),
             "SOP_TESTS": "all",          # tests that are named are run, whosever turn it is
             "CLOSED": shlex.join(closed - {""}), "PLACES": shlex.join(places)}, capture_output=True, text=True, check=False)
