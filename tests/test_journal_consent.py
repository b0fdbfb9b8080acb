"""Whether commands may run unconfined is said on this machine and not by a journal; what was said here is not asked for again."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_desk import sop
from scripted import events, write

from metaflow_agents import fork, resume, run
from metaflow_agents.api.run import go_on
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.approvals import Consents
from metaflow_agents.schema.event import RunOpened
from metaflow_agents.settings import Settings

TEXT = """
sop: desk
artifacts: {one: {}, two: {}}
steps:
  begin: {value: "'x'", makes: one}
  look: {run: [sh, -c, "test -e /sop/work || echo unconfined"], needs: [one], makes: two}
success: two.ok
"""
REFUSED = "the sandbox `none`, and nothing shows that this was said on this machine"


@pytest.fixture
async def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run `r` that was told to go without a sandbox and rests before its command: its workspace, below `tmp_path`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert (await run(write(tmp_path, TEXT), workspace="workspace", name="r", until="begin", sandbox="none")).ok
    return tmp_path / "workspace"


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From here on this is another machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "elsewhere"))


async def unconfined(name: str = "r", workspace: Path | str = "workspace", **options: Any) -> bool:
    """Whether a resume runs the command unconfined."""
    result = await resume(name, workspace=workspace, **options)
    assert result.ok, result.reason
    return "unconfined" in result["two"]["stdout"]


async def test_what_was_said_here_is_not_asked_for_again(begun: Path) -> None:
    assert await unconfined()


@pytest.mark.one_in(8)
async def test_by_another_process_neither(begun: Path) -> None:
    done = sop(begun.parent, "resume", "r")
    assert done.returncode == 0, done.stderr


def test_the_mark_goes_with_a_run_that_is_moved_or_renamed(begun: Path) -> None:
    moved = begun.rename(begun.with_name("moved"))
    (moved / ".journals" / "r.db").rename(moved / ".journals" / "other.db")
    assert asyncio.run(unconfined("other", moved))


async def test_and_with_its_forks(begun: Path) -> None:
    assert await unconfined()
    assert await unconfined(fork("r", at="look@1", workspace=begun))
    assert await unconfined(fork(fork("r", at="look@1", workspace=begun), workspace=begun))


async def test_a_run_from_another_has_its_own_word(begun: Path) -> None:
    text = begun.parent / "desk.yaml"
    assert (await run(text, workspace=begun, name="s", from_run="r", until="begin", sandbox="none")).ok
    assert await unconfined("s")


async def test_a_sop_file_that_is_gone_is_not_needed(begun: Path) -> None:
    (begun.parent / "desk.yaml").unlink()
    assert await unconfined()


async def test_a_sop_that_was_changed_and_accepted_is_covered(begun: Path) -> None:
    text = begun.parent / "desk.yaml"
    text.write_text(TEXT.replace("echo unconfined", "echo unconfined anew"))
    assert await unconfined(accept_changes=True)
    assert await unconfined(fork("r", at="look@1", workspace=begun))          # from its journal alone


@pytest.mark.one_in(4)
@pytest.mark.parametrize("more", [{}, {"sandbox": ""}])
async def test_on_another_machine_it_has_to_be_said(begun: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]) -> None:
    elsewhere(monkeypatch, begun.parent)
    kept = events(begun, "r")
    with pytest.raises(UsageError, match=REFUSED) as told:
        go_on("r", workspace=begun, **more)
    assert "`--sandbox none`" in str(told.value) and "one of bubblewrap, landlock, container to confine it" in str(told.value)
    assert str(begun.parent / "elsewhere") in str(told.value)
    assert events(begun, "r") == kept and not (begun.parent / "elsewhere").exists()
    done = sop(begun.parent, "resume", "r")
    assert done.returncode == 2 and "nothing shows that this was said on this machine" in " ".join(done.stderr.split())


@pytest.mark.one_in(8)
async def test_said_once_it_counts_from_then_on(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, begun.parent)
    done = sop(begun.parent, "resume", "r", "--sandbox", "none")
    assert done.returncode == 0, done.stderr
    assert await unconfined(fork("r", at="look@1", workspace=begun))


async def test_a_fork_elsewhere_says_nothing(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, begun.parent)
    with pytest.raises(UsageError, match=REFUSED):
        go_on(fork("r", workspace=begun), workspace=begun)


@pytest.mark.one_in(12, always=False)
@pytest.mark.parametrize("left", ["before the mark", "after the mark"])
def test_killed_before_the_first_event(begun: Path, left: str) -> None:
    kill = """
import asyncio, os, signal
from metaflow_agents import run
from metaflow_agents.journal.approvals import Consents
give = Consents.give
def killed(self, opened, compiled):
    if AFTER:
        give(self, opened, compiled)
    os.kill(os.getpid(), signal.SIGKILL)
Consents.give = killed
asyncio.run(run("desk.yaml", workspace="workspace", name="killed", sandbox="none"))
"""
    marks = begun.parent / "state" / "sop" / "unconfined"
    before = len(list(marks.iterdir()))
    program = kill.replace("AFTER", str(left == "after the mark"))
    done = subprocess.run([sys.executable, "-c", program], cwd=begun.parent, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(marks.iterdir())) - before == (left == "after the mark")
    with pytest.raises(UsageError, match="no run `killed`"):            # nothing is there, and the name is free
        go_on("killed", workspace=begun)
    words = ("desk.yaml", "--name", "killed", "--until", "begin", "--sandbox", "none")
    assert sop(begun.parent, "run", *words).returncode == 0
    assert asyncio.run(unconfined("killed"))


async def test_where_no_mark_can_be_kept_the_run_goes_on_and_its_resume_is_told(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_text("no folder")
    for name, settings in (("a", Settings(state=tmp_path / "state")), ("b", Settings())):
        path = write(tmp_path, TEXT)
        assert (await run(path, workspace=tmp_path, name=name, until="begin", sandbox="none", settings=settings)).ok
        with pytest.raises(UsageError, match="there is no home" if name == "b" else str(tmp_path / "state")):
            go_on(name, workspace=tmp_path, settings=settings)


def test_a_mark_holds_for_one_run_and_one_sop(tmp_path: Path) -> None:
    consents = Consents(tmp_path / "marks")
    opened = RunOpened(run="r", sop="s", compiled="c", sources={"a": "b"}, entry="e", at=1.25, sandbox="none", budget={"usd": .1})
    assert not consents.has(opened, "c")
    consents.give(opened, "c")
    assert consents.has(opened, "c") and consents.has(RunOpened.model_validate_json(opened.model_dump_json()), "c")
    assert not consents.has(opened, "d")
    for changed in ({"run": "q"}, {"at": 1.5}, {"compiled": "d"}, {"location": "/there"}, {"sop": "t"}, {"chosen": {"*": "dry"}}):
        assert not consents.has(opened.model_copy(update=changed), "c"), changed
    (mark,) = (tmp_path / "marks").iterdir()
    assert mark.stat().st_mode & 0o777 == 0o600
    shutil.move(mark, tmp_path / "mark")
    os.symlink(tmp_path / "mark", mark)
    assert not consents.has(opened, "c")
