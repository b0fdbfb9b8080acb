"""What tests of sandboxes share: whether bubblewrap works here, and who still runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

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
