"""Runs `crash/crash.yaml` on a file system that is full, and goes on with it whenever some more room was made.

usage: crash_small_disk.py DISK ELSEWHERE
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import crash_harness as harness

from metaflow_agents.errors import JournalError, UsageError

ROOM = 48 * 1024
"""Bytes that each resume has more than the one before."""


def fill(path: Path) -> None:
    try:
        with open(path, "ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        return


def attempt(home: Path) -> str:
    """How the run stopped this time; nothing where it came to its end."""
    try:
        try:
            run = harness.carry_on(home)
        except UsageError as error:
            if "no run" not in str(error) and "before it began" not in str(error):
                raise
            run = harness.begin(home)
        result = asyncio.run(harness.drive(run))
    except JournalError as error:
        return str(error)
    if result.outcome not in ("stopped", "success"):
        raise RuntimeError(f"{result}")
    return result.reason


def main() -> None:
    disk, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
    known = elsewhere / "known"
    known.mkdir()
    asyncio.run(harness.drive(harness.begin(known)))
    reference = harness.facts(harness.journal_path(known, harness.NAME), known / harness.NAME)
    ballast, home = disk / "ballast", disk / "home"
    (disk / "tmp").mkdir()
    home.mkdir()
    (home / "calls").symlink_to(elsewhere / "calls")            # not a part of the run
    tempfile.tempdir = str(disk / "tmp")
    fill(ballast)
    while said := attempt(home):
        sys.stdout.write(said.replace("\n", " ") + "\n")
        if left := harness.left_running(home):
            raise RuntimeError(f"left running: {left}")
        os.truncate(ballast, ballast.stat().st_size - ROOM)
    differences = reference.differences(harness.facts(harness.journal_path(home, harness.NAME), home / harness.NAME))
    if differences:
        raise RuntimeError("\n".join(differences))


if __name__ == "__main__":
    main()
