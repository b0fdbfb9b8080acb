"""What commands, tests and checks gave is told: live, on the board, in the log and at the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import load_sop
from metaflow_agents.cli import command
from metaflow_agents.journal.state import RunState
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.event import Committed, Fired, Observed, RunOpened, Version
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.board import Board
from metaflow_agents.views.gave import commands_of, is_check, observed_told, payload_told, result_told
from metaflow_agents.views.page import Page

JUNIT = {"ok": True, "exit_code": 0, "total": 160, "passed": 160, "failed": 0, "errors": 0, "skipped": 0, "failures": []}
RED = {**JUNIT, "ok": False, "exit_code": 1, "failed": 1, "failures": [{"id": "tests/test_a.py::test_b", "message": "x"}]}
RAN = {"ok": True, "exit_code": 0, "stdout": "", "stderr": ""}
DESK = """
sop: desk
roles: {ann: {profile: You write.}}
inputs: {names: {type: [string], default: [a, b]}}
artifacts: {note: {file: note.txt}, seen: {}, each: {each: {}}, text: {}}
steps:
  write: {role: ann, makes: note, check: {run: "grep -q fine note.txt", repairs: 1}}
  look: {run: "sh -c 'echo well >&2; exit 3'", needs: [note], makes: seen}
  many: {run: "sh -c 'exit 0'", needs: [names, seen], foreach: {in: names}, makes: each}
  inner: {sop: inside, needs: [seen], makes: text}
outputs: [seen, text]
"""
INSIDE = """
sop: inside
artifacts: {came: {}, text: {}}
steps:
  try_it: {run: "sh -c 'exit 4'", makes: came}
  tell: {value: "came.exit_code ~ ''", needs: [came], makes: text}
outputs: [text]
"""


@pytest.mark.parametrize(("value", "told"), [
    (JUNIT, "160 passed"), (RED, "160 passed, 1 failed (tests/test_a.py::test_b)"),
    ({**RED, "errors": 1, "skipped": 2, "failures": []}, "160 passed, 1 failed, 1 error, 2 skipped (exit status 1)"),
    ({**JUNIT, "ok": False, "passed": 0, "errors": 1, "failures": [{"id": "", "message": "exit code 2\nusage"}]},
     "1 error (exit code 2 usage)"),
    ({**JUNIT, "ok": False, "passed": 0, "exit_code": 5}, "no test ran (exit status 5)"),
    (RAN, "exit status 0"), ({**RAN, "ok": False, "exit_code": 2, "stdout": "a\nb\n\n"}, "exit status 2: b"),
    ({**RAN, "ok": False, "exit_code": 2, "stdout": "a", "stderr": "x" * 500}, f"exit status 2: {'x' * 119}…"),
    ({**RAN, "ok": "yes"}, ""), ({"ok": True}, ""), ({"ok": True, "exit_code": True, "stdout": "", "stderr": ""}, ""),
    ({**JUNIT, "passed": "1", "stdout": 3}, ""), (None, ""), ("text", ""), ([], ""),
])
def test_a_result_in_words(value: Any, told: str) -> None:
    assert result_told(value) == told == observed_told("a@1~0/run", {"kind": "data", "value": value})
    assert payload_told({"kind": "data", "value": value}) == told and payload_told({"kind": "files", "value": value}) == ""


def test_a_check_in_words() -> None:
    for content in (None, [], "", True):
        assert observed_told("a@1~0/checked.0", {"value": content}) == "it passes"
    assert observed_told("a@1~0/checked.0", {"value": ["no title", "too long"]}) == "it fails: no title; too long"
    assert observed_told("a@1~0/checked.0", {"value": False}) == "it fails: False"
    assert observed_told("a@1~0/checked.2", {"value": "exit code 1\n  no\n"}) == "it fails: exit code 1 no"
    assert is_check("a@1[x%2Fy]~0/checked.11") and not is_check("a@1~0/turn.0/unchecked.0")
    assert not is_check("a@1[/checked.0]~0/run")
    assert observed_told("a@1~0/inbox", {"value": RAN}) == ""


def test_the_board_tells_what_a_command_and_a_check_gave(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(DESK)
    (tmp_path / "inside.yaml").write_text(INSIDE)
    program = load_sop(tmp_path / "desk.yaml").program
    assert commands_of(program.plain()) == {"look", "many", "inner/try_it"}
    stored = {name: {"kind": "data", "value": value} for name, value in (("no", "exit code 1"), ("yes", None), ("r", RED))}
    state = RunState()
    board = Board(program, SOPGraph(program.sop), state, Budget(), blob=stored.__getitem__)
    for seq, event in enumerate((
            RunOpened(run="desk-1", sop="s", compiled="c", sources={}, entry="desk.yaml"), Fired(step="write", round=1, read={}),
            Observed(key="write@1~0/checked.0", payload="no"), Observed(key="write@1~0/checked.1", payload="yes"),
            Committed(firing="write@1", versions=(Version(artifact="note", number=1, payload="r"),)),
            Fired(step="look", round=1, read={"note": 1}),
            Committed(firing="look@1", versions=(Version(artifact="seen", number=1, payload="r"),))), 1):
        state.apply(seq, event)
        board.apply(event)
    rows = {row.name: row.what for row in board.rows(0.0)}
    assert rows["write"] == "note@1" and rows["look"] == "seen@1: 160 passed, 1 failed (tests/test_a.py::test_b)"
    messages = [line for line in board.lines(Page(), 0.0) if "its check" in line or "makes" in line]
    assert messages[0] == "write@1: its check ran: it fails: exit code 1" and len(messages) == 3
    assert messages[2].startswith("look@1: makes seen@1 for many, inner: 160 passed, 1 failed")


def test_the_command_tells_what_came_of_commands_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "desk.yaml").write_text(DESK)
    (tmp_path / "inside.yaml").write_text(INSIDE)
    (tmp_path / "who.py").write_text("def answer(request):\n    return 'fine' if 'check' in request.key else 'bad'\n")
    monkeypatch.chdir(tmp_path)
    assert command(["run", "desk.yaml", "--model", "python:who.py:answer", "--sandbox", "none", "--name", "it"]) == 0
    told = re.sub(r" in [\d.]+ s", "", capsys.readouterr().out)
    lines = [line[10:] for line in told.splitlines()]
    for line in ("write@1: its check ran: it fails: exit code 1", "write@1: its check ran: it passes",
                 "look@1: makes seen@1 for many, inner: exit status 3: well", "many@1[a]: is done: exit status 0",
                 "inner@1/try_it@1: makes came@1 for tell: exit status 4"):
        assert line in lines, told
    assert re.search(r"  seen@1 +look@1 +exit status 3: well\n", told)
    assert command(["log", "it"]) == 0
    log = re.sub(r" in [\d.]+ s", "", capsys.readouterr().out)
    for line in ("look@1/run: ran: exit status 3: well", "look@1: makes seen@1 for many, inner: exit status 3: well",
                 "write@1: its check ran: it passes"):
        assert f"  {line}\n" in log, log
