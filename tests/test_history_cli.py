"""`sop show` tells how far a run's history is, `sop history` writes what it lacks."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_desk import lay_out
from real_git import git

from metaflow_agents.cli import command
from metaflow_agents.journal.lock import RunLock
from metaflow_agents.journal.places import journal_path

Say = Callable[..., tuple[int, str, str]]
RUN = ("run", "looped.yaml", "--model", "python:desk.py:answer", "--topic", "tea", "--name", "one")


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Carries out a command in a folder with SOPs: status, stdout (its lines broken nowhere), stderr."""
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)

    def carried_out(*words: str) -> tuple[int, str, str]:
        status = command(words)
        seen = capsys.readouterr()
        return status, seen.out, seen.err

    return carried_out


def history(say: Say) -> str:
    """What `sop show` says of it, on one line."""
    _, out, _ = say("show", "one")
    found = re.search(r"^  history +(.*(?:\n {6,}.*)*)", out, re.MULTILINE)
    assert found is not None, out
    return " ".join(found[1].split())


def test_a_history_that_is_whole(say: Say, tmp_path: Path) -> None:
    assert say(*RUN)[0] == 0
    folder = tmp_path / "workspace" / "one"
    count = int(git(folder, "rev-list", "--count", "main"))
    last = git(folder, "log", "-1", "--format=%h %s", "--abbrev=12")
    assert history(say) == f"{count} commits on main, the last {last}"
    assert say("history", "one") == (0, f"one: {count} commits on main, the last {last[:12]}; it was complete\n", "")
    told = json.loads(say("show", "one", "--json")[1])["history"]
    assert told == {"commits": count, "written": count, "head": last[:12], "subject": last[13:], "kept": []}


@pytest.mark.one_in(4)
def test_what_is_lost_or_behind_is_told_and_written(say: Say, tmp_path: Path) -> None:
    assert say(*RUN)[0] == 0
    folder = tmp_path / "workspace" / "one"
    count, last = int(git(folder, "rev-list", "--count", "main")), git(folder, "rev-parse", "main")
    git(folder, "update-ref", "refs/heads/main", "main~2")
    assert history(say) == f"{count - 2} of {count} commits; `sop history one` writes the rest"
    assert say("history", "one")[0] == 0 and git(folder, "rev-parse", "main") == last
    shutil.rmtree(folder / ".git")
    assert history(say) == f"0 of {count} commits; `sop history one` writes the rest"
    told = json.loads(say("history", "one", "--json")[1])
    assert told["head"] == git(folder, "rev-parse", "main") == last and told["objects_written"] > count
    assert git(folder, "status", "--porcelain") == ""
    shutil.rmtree(folder)
    assert say("history", "one")[0] == 0
    git(folder, "checkout", "-q", ".")
    assert git(folder, "status", "--porcelain") == "" and (folder / ".git").is_dir()


def test_what_somebody_committed_is_told(say: Say, tmp_path: Path) -> None:
    assert say(*RUN)[0] == 0
    folder = tmp_path / "workspace" / "one"
    git(folder, "commit", "-q", "--allow-empty", "-m", "by hand")
    mine = git(folder, "rev-parse", "--short=12", "HEAD")
    assert history(say) == f"main is at a commit that is not the run's: {mine} by hand"
    status, out, error = say("history", "one")
    assert (status, out) == (2, "") and "name that branch otherwise" in error and error.count("\n") == 1
    git(folder, "branch", "-m", "main", f"before-{mine}")
    assert say("history", "one")[0] == 0
    assert history(say).endswith(f"; what somebody else committed is on before-{mine}")


def test_a_run_that_is_open_or_unknown(say: Say, tmp_path: Path) -> None:
    status, _, error = say("history", "two")
    assert status == 2 and "no run `two`" in error
    assert not (tmp_path / "workspace").exists()
    assert say(*RUN)[0] == 0
    shutil.rmtree(tmp_path / "workspace" / "one" / ".git")
    lock = RunLock(journal_path(tmp_path / "workspace", "one"))
    assert "the rest is written when the run rests" in history(say)
    status, _, error = say("history", "one")
    assert status == 2 and "run `one` is open in process" in error
    lock.release()
