"""Renamed options and commands: the old names still work, and each says once what it is called now."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from scripted import write

from metaflow_agents.cli import command, renamed
from metaflow_agents.cli.app import app

SOP = """
    sop: pair
    roles: {ann: {profile: You write.}}
    artifacts: {draft: {}, note: {}}
    steps:
      write: {role: ann, makes: draft}
      judge: {role: ann, needs: [draft], makes: note, task: "Judge {{ draft }}"}
"""


@pytest.fixture(autouse=True)
def told_anew() -> None:
    renamed._say.cache_clear()


def test_old_names_work_and_say_once_what_they_are_called_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path, SOP))
    assert command(["preview", path, "judge", "--stub", "draft=\"roots\""]) == 0
    now = capsys.readouterr()
    assert command(["prompt", path, "judge", "--given", "draft=\"roots\""]) == 0
    before = capsys.readouterr()
    assert command(["prompt", path, "judge", "--given", "draft=\"roots\""]) == 0 and capsys.readouterr().err == ""
    assert "Judge roots" in now.out and before.out == now.out and now.err == ""
    assert before.err.splitlines() == ["`sop prompt` is now called `sop preview`; the old name will go",
                                       "`--given` is now called `--stub`; the old name will go"]


def test_old_names_are_in_no_help() -> None:
    group = typer.main.get_command(app)
    assert set(renamed.COMMANDS.values()) <= set(group.commands) and not set(renamed.COMMANDS) & set(group.commands)
    options = {name for one in group.commands.values() for param in one.params for name in param.opts}
    assert {f"--{name}" for name in renamed.OPTIONS.values()} <= options
    assert not {f"--{name}" for name in renamed.OPTIONS} & options


@pytest.mark.one_in(4)
def test_an_input_may_have_an_old_name(tmp_path: Path) -> None:
    path = str(write(tmp_path, "\n    sop: mine\n    inputs: {given: string}\n    roles: {ann: {profile: You write.}}\n"
                               "    artifacts: {draft: {}}\n    steps: {write: {role: ann, needs: [given], makes: draft}}\n"))
    assert command(["run", path, "--given", "x", "--model", "dry", "--workspace", str(tmp_path / "w"), "--name", "r"]) == 0
    assert command(["run", path, "--model", "dry", "--workspace", str(tmp_path / "w"), "--name", "s"]) == 2
