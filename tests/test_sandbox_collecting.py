"""What comes back of a copy: what changed, and nothing that only looks like a file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sandboxes import BWRAP, needs_bubblewrap, temporary_in

from metaflow_agents.sandbox import collecting
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.port import FileChanges, Sandbox
from metaflow_agents.sandbox.unconfined import Unconfined

CHANGES = """
import os, shutil
open("new", "w").write("n"); os.makedirs("d/e/f"); open("d/e/f/x", "wb").write(b"\\0\\xff/sop/work")
open("kept", "w").write("same"); os.rename("moved", "d/moved"); os.unlink("gone"); shutil.rmtree("whole")
os.unlink("__pycache__/old.pyc"); open("__pycache__/m", "w"); open("o.pyc", "w")
os.unlink("file"); os.mkdir("file"); open("file/inner", "w")
open("empty", "w"); os.chmod("mode", 0o755)
"""
GIVEN = {"kept": b"same", "moved": b"m", "gone": b"g", "whole/a": b"1", "whole/b/c": b"2", "file": b"f", "mode": b"m",
         "empty": b"e", "__pycache__/old.pyc": b"o", "untouched": b"u"}


@pytest.fixture(params=[pytest.param("bubblewrap", marks=needs_bubblewrap), "none"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    temporary_in(tmp_path, monkeypatch)
    return Bubblewrap(BWRAP, {}) if request.param == "bubblewrap" else Unconfined({"PATH": "/usr/bin:/bin"})


async def test_what_was_written_and_deleted_comes_back_byte_for_byte(sandbox: Sandbox) -> None:
    ran = await sandbox.run(["python", "-c", CHANGES], files=GIVEN, changes=True)
    assert ran.changes == FileChanges(
        {"d/e/f/x": b"\0\xff/sop/work", "d/moved": b"m", "empty": b"", "file/inner": b"", "new": b"n"},
        ("file", "gone", "moved", "whole/a", "whole/b/c")), ran
    assert list(ran.changes.written) == sorted(ran.changes.written) and ran.changes


async def test_nothing_comes_back_where_nobody_asked_or_nothing_changed(sandbox: Sandbox) -> None:
    assert (await sandbox.run(["true"], files=GIVEN)).changes is None
    unchanged = (await sandbox.run(["true"], files=GIVEN, changes=True)).changes
    assert unchanged == FileChanges() and not unchanged


@needs_bubblewrap
async def test_a_command_that_was_ended_still_tells_what_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary_in(tmp_path, monkeypatch)
    ran = await Bubblewrap(BWRAP, {}).run(["sh", "-c", "echo x > n; sleep 60"], files={}, changes=True, timeout=0.7)
    assert ran.timed_out and ran.changes == FileChanges({"n": b"x\n"})


def test_what_was_left_alone_is_not_read() -> None:
    """200 files, one of them changed: one is opened."""
    files = {f"d{number % 10}/f{number}": b"x" * 1000 for number in range(200)}
    with Copy(files) as copy:
        begun = time.time_ns() + 10 ** 9                # long after
        (copy.work / "d3/f3").write_bytes(b"y" * 1000)
        opened: list[str] = []

        def taking(self: collecting.CollectedFiles, here: int, name: str, path: str) -> None:
            opened.append(path)
            take(self, here, name, path)

        take = collecting.CollectedFiles._take
        with mock.patch.object(collecting.CollectedFiles, "_take", taking):
            assert copy.changes(begun).written == {"d3/f3": b"y" * 1000}
        assert opened == ["d3/f3"]


def test_a_rewrite_in_the_tick_of_the_clock_that_laid_it_out_is_seen() -> None:
    """Its times and its size say that nothing happened."""
    with Copy({"a": b"old", "b": b"old"}) as copy:
        (copy.work / "a").write_bytes(b"new")
        copy._marks = {name: collecting.mark(os.stat(copy.work / name)) for name in ("a", "b")}
        assert copy.changes(time.time_ns()).written == {"a": b"new"}


def test_a_change_that_sets_the_time_of_its_file_back_is_seen() -> None:
    """Inode, size and modification time say that nothing happened; the time of the inode can't be set."""
    with Copy({"a": b"old", "b": b"old"}) as copy:
        before = os.stat(copy.work / "a")
        time.sleep(0.02)                                # into another tick of the clock
        (copy.work / "a").write_bytes(b"new")
        os.utime(copy.work / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert os.stat(copy.work / "a").st_mtime_ns == before.st_mtime_ns
        assert copy.changes(time.time_ns() + 10 ** 9).written == {"a": b"new"}


def test_where_nobody_may_look_nothing_is_told_as_deleted() -> None:
    with Copy({"d/a": b"1", "e": b"2"}) as copy:
        walked = os.open

        def locked(path: object, flags: int, *more: object, **named: object) -> int:
            if path == "d":
                raise PermissionError(13, "Permission denied")
            return walked(path, flags, *more, **named)      # type: ignore[arg-type]

        with mock.patch.object(collecting.os, "open", locked):
            assert copy.changes(0) == FileChanges(refused={"d": "it can't be read: Permission denied"})


@pytest.mark.one_in(4)
@settings(database=None)                    # an ordinary user has no place for one
@given(st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e", "f/g/h"]), st.binary(max_size=4)),
       st.dictionaries(st.sampled_from(["a", "b", "c/d", "c/e", "f/g/h"]), st.binary(max_size=4)))
def test_given_and_changes_make_what_is_there(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    with Copy(before) as copy:
        for path in before.keys() - after.keys():
            (copy.work / path).unlink()
        for path, data in after.items():
            (copy.work / path).parent.mkdir(parents=True, exist_ok=True)
            (copy.work / path).write_bytes(data)
        found = copy.changes(time.time_ns())
    made = {path: data for path, data in before.items() if path not in found.deleted} | found.written
    assert made == after and not found.refused
    assert all(before.get(path) != data for path, data in found.written.items())
