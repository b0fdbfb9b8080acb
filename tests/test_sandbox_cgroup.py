"""Control groups: where they are used, what is written, and what is told. The kernel's part is played by a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxes import BWRAP, left_in, needs_bubblewrap, temporary_in

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bubblewrap, cgroup
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.cgroup import ControlGroup, group_parent
from metaflow_agents.sandbox.limits import SandboxLimits

MOUNT = "30 23 0:26 {root} {place} rw,nosuid - {kind} cgroup2 rw\n"


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A group whose groups may have limits, as far as a folder can be one."""
    group_parent.cache_clear()
    (tmp_path / "top/mine").mkdir(parents=True)
    for folder in (tmp_path / "top", tmp_path / "top/mine"):
        (folder / "cgroup.procs").write_text("")
        (folder / "cgroup.subtree_control").write_text("")
    (tmp_path / "groups").write_text("4:memory:/x\n0::/slice/mine\n")
    (tmp_path / "mounts").write_text(MOUNT.format(root="/", place="/elsewhere", kind="ext4")
                                     + MOUNT.format(root="/slice", place=tmp_path / "top", kind="cgroup2"))
    monkeypatch.setattr(cgroup, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(cgroup, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(Path, "rmdir", lambda self: ([file.unlink() for file in self.iterdir()], os.rmdir(self)))
    yield tmp_path / "top"
    group_parent.cache_clear()


def found() -> Path | None:
    group_parent.cache_clear()
    return group_parent()


def test_the_nearest_group_that_may_have_limited_ones(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() is None
    (parent / "cgroup.subtree_control").write_text("cpu memory")
    assert found() is None
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert found() == parent
    (parent / "mine/cgroup.subtree_control").write_text("memory pids\n")
    assert found() == parent / "mine"
    (parent / "mine/cgroup.procs").unlink()                                  # processes may not be moved there
    assert found() == parent
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert found() is None
    monkeypatch.setattr(cgroup.sys, "platform", "darwin")
    assert found() is None


def test_a_group_into_which_no_process_can_be_moved_is_not_used(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (parent / "cgroup.subtree_control").write_text("memory pids")
    monkeypatch.setattr(ControlGroup, "take", lambda *_: None)
    assert found() is None and list(parent.glob("sop-*")) == []
    monkeypatch.undo()


def test_what_orchestrators_that_were_killed_left_is_removed(parent: Path) -> None:
    (parent / "cgroup.subtree_control").write_text("memory pids")
    with subprocess.Popen(["true"]) as dead:
        pass
    for owner in (dead.pid, os.getpid()):
        (parent / f"sop-{owner}-ab").mkdir()
    assert found() == parent
    assert [left.name for left in parent.glob("sop-*")] == [f"sop-{os.getpid()}-ab"]


def test_limits_are_written_and_what_passed_is_told(parent: Path) -> None:
    group = ControlGroup(parent, SandboxLimits(memory=128 << 20, processes=40))
    written = {file.name: file.read_text() for file in group.folder.iterdir()}
    assert written == {"memory.max": str(128 << 20), "memory.oom.group": "1", "pids.max": "44"}
    group.take([os.getpid()])
    assert (group.folder / "cgroup.procs").read_text() == str(os.getpid())
    assert group.passed() == ""
    (group.folder / "memory.events").write_text("low 0\nmax 12\noom 3\noom_kill 0\n")
    assert group.passed() == ""
    (group.folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert group.passed() == "it took more than 128 MB of memory"
    group.remove()
    group.remove()
    assert not group.folder.exists()


@needs_bubblewrap
async def test_a_command_gets_one_and_its_whole_tree_is_in_it_before_it_starts(
    parent: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary_in(tmp_path, monkeypatch)
    monkeypatch.setattr(bubblewrap, "group_parent", lambda: parent)
    taken: list[list[str]] = []

    def take(self: ControlGroup, pids: Iterator[int]) -> None:
        taken.append([Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids])
        (self.folder / "memory.events").write_text("oom_kill 1")

    monkeypatch.setattr(ControlGroup, "take", take)
    ran = await Bubblewrap(BWRAP, {}).run(["echo", "x"], files={})
    assert ran.stdout == "x\n" and ran.stderr == "ended by the sandbox: it took more than 2,048 MB of memory\n"
    assert taken == [["bwrap", "bwrap", "sh"]]
    assert not [name for name in left_in(parent) if name.startswith("sop-")]


@needs_bubblewrap
async def test_where_limits_can_not_be_laid_any_more_nothing_runs(
    parent: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary_in(tmp_path, monkeypatch)
    monkeypatch.setattr(bubblewrap, "group_parent", lambda: parent / "gone")
    with pytest.raises(RunError, match=r"can't confine `touch` any more \(can't limit a command by the control group .*not run"):
        await Bubblewrap(BWRAP, {}).run(["touch", "x"], files={})


UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.mark.skipif(not (UNIFIED / "cgroup.procs").exists() or os.geteuid() != 0, reason="no hierarchy of version 2 to try")
def test_a_process_is_moved_and_its_group_removed_in_a_real_hierarchy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without controllers, so without its limits."""
    write = ControlGroup._write
    monkeypatch.setattr(ControlGroup, "_write", lambda self, name, value: write(self, name, value) if "procs" in name else None)
    group = ControlGroup(UNIFIED, SandboxLimits())
    with subprocess.Popen(["sleep", "60"]) as process:
        group.take([process.pid])
        assert f"0::/{group.folder.name}" in Path(f"/proc/{process.pid}/cgroup").read_text().split()
        process.kill()
    group.remove()
    assert not group.folder.exists()
