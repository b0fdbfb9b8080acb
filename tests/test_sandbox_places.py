"""Where copies lie: in memory where that is usual and there is room, held while they are in use, and counted as memory."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import BWRAP, needs_bubblewrap

from metaflow_agents.sandbox import places
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.limits import SandboxLimits

MB = 1 << 20


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for the one in memory, and the usual one for temporary files."""
    for name in ("memory", "usual"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(places, "MEMORY", tmp_path / "memory")
    monkeypatch.setattr(places, "_USUAL", str(tmp_path / "usual"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "usual"))
    places._swept.cache_clear()
    yield tmp_path / "memory"
    places._swept.cache_clear()


def place(room: int) -> Path:
    folder, held = places.made(room)
    os.close(held)
    return folder.parent


def test_in_memory_where_there_is_room_and_nobody_chose_another_place(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = memory.parent / "usual"
    assert place(1) == memory and places.in_memory(memory / "x")
    assert place(0) == usual and not places.in_memory(usual / "x")
    assert place(1 << 60) == usual
    there = os.statvfs(memory)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*there[:8], there.f_flag | os.ST_NOEXEC, *there[9:])))
    assert place(1) == usual, "a command's own programs could not be started there"
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(memory.parent))
    assert place(1) == memory.parent, "who names a place gets it"


@pytest.mark.parametrize("room", [0, 1])
def test_what_was_left_there_by_who_was_killed_is_removed_and_what_is_in_use_is_not(memory: Path, room: int) -> None:
    used, held = places.made(room)
    place = used.parent
    (place / "sop-copy-left/work").mkdir(parents=True)
    (place / "sop-copy-left/work/x").write_text("x")
    (place / "sop-copy-link").symlink_to(memory.parent)
    (place / "other").mkdir()
    places._swept.cache_clear()
    new, held_too = places.made(room)
    assert {path.name for path in place.iterdir()} == {used.name, new.name, "sop-copy-link", "other"}
    for descriptor in (held, held_too):
        os.close(descriptor)


@pytest.mark.one_in(4)
@needs_bubblewrap
async def test_what_lies_in_memory_counts_as_memory(memory: Path) -> None:
    box = Bubblewrap(BWRAP, {}, limits=SandboxLimits(memory=100 * MB))
    code = ("import sys, time\nkept = bytearray(b'x') * (40 << 20)\nwith open('f', 'wb') as file:\n"
            "    for _ in range(int(sys.argv[1])): file.write(b'x' * (1 << 20))\ntime.sleep(float(sys.argv[2]))")
    assert (await box.run(["python", "-c", code, "10", "1"], files={})).ok
    ran = await box.run(["python", "-c", code, "80", "30"], files={})
    assert ran.exit_code == -9 and ran.stderr == "ended by the sandbox: it took more than 100 MB of memory\n"
    assert list(os.listdir(memory)) == []
    box = Bubblewrap(BWRAP, {}, limits=SandboxLimits(memory=100 * MB))
    box.room = 0
    assert (await box.run(["python", "-c", code, "80", "1"], files={})).ok


def test_a_folder_that_another_process_looks_at_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks holds it for a moment: another one is made then."""
    looking: list[int] = []
    make = tempfile.mkdtemp

    def looked_at(*arguments: Any, **named: Any) -> str:
        folder = make(*arguments, **named)
        if not looking:
            looking.append(os.open(folder, os.O_RDONLY))
            fcntl.flock(looking[0], fcntl.LOCK_EX)
        return folder

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", looked_at)
    folder, descriptor = places.made(0)
    os.close(descriptor)
    os.close(looking[0])
    assert list(tmp_path.iterdir()) == [folder]
