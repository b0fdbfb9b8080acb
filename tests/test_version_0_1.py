"""Journals and a recording that version 0.1 wrote before its modules moved: they read, resume, fork, replay and export as then.

`data/version_0.1` was written by that version: `ended` went to its end, `stopped` rests after `write`, `killed` lost its process
by SIGKILL within the call of `judge_it`; beside them what `sop show`, `sop log` and `sop export` said of them. Nothing in it is
ever written anew.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted

from metaflow_agents import fork, resume, run
from metaflow_agents.cli import command
from metaflow_agents.journal.run_summary import RawJournal

DATA = Path(__file__).parent / "data/version_0.1"
RUNS = ("ended", "stopped", "killed")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the SOP and the runs in its workspace."""
    (tmp_path / "workspace/.journals").mkdir(parents=True)
    for name in RUNS:
        shutil.copy(DATA / f"{name}.db", tmp_path / "workspace/.journals")
    for name in ("letters.yaml", "desk.py", "rec.jsonl"):
        shutil.copy(DATA / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model() -> Scripted:
    return Scripted(judge_it={"good": True, "why": "short"}, bind="=== file: letters.md ===\n# Letters\n=== end ===\n")


@pytest.mark.parametrize("name", RUNS)
def test_show_and_log_say_what_they_said(name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, file in ((["show", name, "--json"], f"{name}.show.json"), (["log", name, "--json"], f"{name}.log.json")):
        assert command(words) == 0
        found, said = json.loads(capsys.readouterr().out), json.loads((DATA / file).read_text())
        if words[0] == "show":
            del found["history"], said["history"]               # of the run's folder, which is not here
        assert found == said, file
    if name == "ended":
        assert command(["show", name, "--costs", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads((DATA / "ended.costs.json").read_text())


def test_exports_are_the_same_to_the_byte(home: Path) -> None:
    assert command(["export", "ended", "--recording", "again.jsonl", "--results", "--answered-by", "a function"]) == 0
    assert Path("again.jsonl").read_bytes() == (DATA / "rec.jsonl").read_bytes()
    assert command(["export", "ended", "--for", "finetune", "--output", "set.jsonl"]) == 0
    assert Path("set.jsonl").read_bytes() == (DATA / "ft.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["stopped", "killed"])
async def test_a_run_is_resumed_and_pays_for_nothing_again(name: str, home: Path) -> None:
    asked = model()
    result = await resume(name, model=asked)
    assert result.ok and result["verdict"] == {"good": True, "why": "short"}
    assert asked.steps == ["judge_it", "bind"], "the letters stand; the call that was in flight is made again"
    with RawJournal(home / f"workspace/.journals/{name}.db") as journal:
        assert sum(1 for _ in journal.events("settled")) == 5


async def test_a_run_is_forked(home: Path) -> None:
    label = fork("ended", at="judge_it@1")
    asked = model()
    assert (await resume(label, model=asked)).ok and asked.steps == ["judge_it", "bind"]


async def test_results_are_reused_and_the_recording_replays(home: Path) -> None:
    given: dict[str, Any] = {"topics": ["tea", "rain"]}
    again = await run("letters.yaml", model="replay:rec.jsonl", recorded=home / "rec.jsonl", name="again", **given)
    assert again.ok
    with RawJournal(home / "workspace/.journals/again.db") as journal:
        taken = [event["activation"] for _, event in journal.events("finished") if event.get("reused_from")]
    assert taken == ["look@1~0"], "the function lies elsewhere now; its recorded result is taken over all the same"
    assert (await run("letters.yaml", model="python:desk.py:answer", from_run="ended", name="reused", **given)).ok
    with RawJournal(home / "workspace/.journals/reused.db") as journal:
        assert all(event.get("reused_from") for _, event in journal.events("finished"))
