"""What a person sees of a SOP inside of a SOP: while it runs, afterwards, asked something, and in data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import events, write
from test_sub_sops import ASKING, BOOK, CHAPTER, answer, book

from metaflow_agents import run
from metaflow_agents.cli import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.journal.state import RunState
from metaflow_agents.kits.training_data.kinds import dataset
from metaflow_agents.kits.training_data.lived import lives
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.event import Reserved
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.sop.load import load_sop
from metaflow_agents.views.board import Board
from metaflow_agents.views.event_log import step_of

MIDDLE = """
    sop: middle
    inputs: {title: string}
    artifacts: {whole: {}}
    steps: {inner: {sop: chapter, inputs: {title: title}, needs: [title], makes: whole}}
"""
MODEL = """
    def answer(request):
        if request.step == "plan_it":
            return {"chapters": [{"id": "b", "needs": ["a"]}, {"id": "a", "needs": []}]}
        if request.step == "judge":
            return {"good": "[a]" in request.key or "judge@2" in request.key}
        return f"{request.step} of {request.key}"
"""


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> list[str]:
    """The lines of a command, without the clock."""
    assert command(list(words)) == status
    out, err = capsys.readouterr()
    return [line[10:] if line[2:3] == ":" else line for line in (out + err).splitlines()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """A run `it` of a book of two chapters, done from the command line, in the folder where the test is: what it said."""
    book(tmp_path)
    write(tmp_path, (tmp_path / "desk.yaml").read_text(), m_py=MODEL)
    monkeypatch.chdir(tmp_path)
    return told(capsys, "run", "desk.yaml", "--topic", "rain", "--model", "python:m.py:answer", "--name", "it")


def test_a_run_tells_what_happens_inside(desk: list[str]) -> None:
    assert [line.partition(" in ")[0] for line in desk[5:12]] == [
        "write@1[a]: is given title@1 for draft, tone@1 for draft", "write@1[a]/draft@1: starts on title@1, tone@1",
        "write@1[a]/draft@1: makes text@1 for judge, mend", "write@1[a]/judge@1: starts on text@1",
        "write@1[a]/judge@1: makes verdict@1 for mend", "write@1[a]: is done",
        "write@1[b]: is given title@1 for draft, tone@1 for draft"]
    assert "write@1[b]/mend@1: makes text@2 for judge, mend" in desk


@pytest.mark.one_in(4)
def test_the_log_is_asked_for_a_step_inside_and_for_a_kind_of_event(desk: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    mended = [line.split(": ")[0] for line in told(capsys, "log", "it", "--step", "write/mend")]
    assert mended == ["write@1[b]/mend@1", *["write@1[b]/mend@1/turn.0"] * 2, *["write@1[b]/mend@1"] * 2]
    fired = [line.partition(":")[0] for line in told(capsys, "log", "it", "--kind", "fired")]
    assert fired[:4] == ["plan_it@1", "write@1", "write@1[a]/draft@1", "write@1[a]/judge@1"] and len(fired) == 8
    assert len(told(capsys, "log", "it", "--step", "write", "--kind", "fired")) == 7, "a step with all that is in it"
    assert "      mend of write@1[b]~0/mend@1~0/turn.0" in told(capsys, "log", "it", "--step", "write/mend", "--full")
    assert [line.split(": ")[0] for line in told(capsys, "log", "it", "--step", "write[b]/mend")] == mended
    assert {line.split("/")[0].split(":")[0] for line in told(capsys, "log", "it", "--step", "write@1[a]")} == {"write@1[a]"}
    assert "there is: write[b]/mend" in told(capsys, "log", "it", "--step", "write[a]/mend", status=2)[0]
    assert "did you mean `write/mend`?" in told(capsys, "log", "it", "--step", "write/mnd", status=2)[0]


def test_show_counts_the_firings_inside(desk: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in told(capsys, "show", "it")]
    assert ["write/draft", "2", "firings"] in rows and ["write/mend", "1", "firing"] in rows
    command(["show", "it", "--json"])
    assert json.loads(capsys.readouterr().out)["inside"] == {"write/draft": 2, "write/judge": 3, "write/mend": 1}


async def test_the_board_tells_where_each_sop_is(tmp_path: Path) -> None:
    """Each event of a run of three SOPs in one another is folded in, and the board drawn after it."""
    path = write(tmp_path, BOOK.replace("KEYS", "retries: 0").replace("sop: chapter\n", "sop: middle\n"),
                 chapter_yaml=CHAPTER, middle_yaml=MIDDLE)
    await run(path, topic="rain", model=answer, workspace=tmp_path, name="it")
    program, state = load_sop(path).program, RunState()
    board = Board(program, SOPGraph(program.sop), state, Budget())
    seen: list[str] = []
    with Journal.read(journal_path(tmp_path, "it")) as journal:
        for seq, event in journal.events():
            state.apply(seq, event)
            board.apply(event)
            seen += [f"{row.name}: {row.what}" for row in board.rows(event.at) if row.item]
    places = list(dict.fromkeys(line.partition(", in ")[2] for line in seen if line.startswith("b:") and ", in " in line))
    assert places == ["inner", "inner/draft", "inner/judge", "inner/mend"]


def test_who_asks_is_told_with_the_sop_that_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    book(tmp_path, chapter=ASKING)
    write(tmp_path, (tmp_path / "desk.yaml").read_text(), m_py=MODEL)
    monkeypatch.chdir(tmp_path)
    told(capsys, "run", "desk.yaml", "--topic", "rain", "--model", "python:m.py:answer", "--name", "it", status=4)
    assert told(capsys, "inbox", "it")[0].endswith("write@1[a]/ask asks")


def broken_once(request: ModelRequest) -> Any:
    """The first attempt at chapter `b` ends without success, the second one is mended."""
    if request.step == "judge" and "[b]~0/" in request.key:
        return {"good": False}
    return answer(request)


async def test_a_data_set_holds_the_activations_inside_each_for_itself(tmp_path: Path) -> None:
    await run(book(tmp_path, "retries: 1"), topic="rain", model=broken_once, workspace=tmp_path, name="it")
    assert len(events(tmp_path, "it", Reserved)) == 13
    with RawJournal(journal_path(tmp_path, "it")) as journal:
        lived = list(lives(journal))
    assert [(["/".join(key.step for key in one.path)], one.role) for one in lived[:3]] == [
        (["plan_it"], "planner"), (["write/draft"], "writer"), (["write/judge"], "critic")]
    assert all(len(one.calls) == 1 and one.accepted for one in lived) and len(lived) == 13
    made = dataset("finetune", lived)
    assert len(made.lines) == 7 and made.left_out == {"its run did not end with success": 6}, \
        "what a SOP that finished without success is made of was not right"


def test_every_step_of_an_event_is_told() -> None:
    inner = {"kind": "inner", "activation": "a@1~0", "event": {"kind": "inner", "activation": "b@2[x]~1", "event": {
        "kind": "fired", "step": "c", "round": 1}}}
    assert step_of(inner) == "a/b/c"
    assert step_of({"kind": "reserved", "key": "a@1~0/b@2[x%5D]~1/c@1~0/turn.0"}) == "a/b/c"
    assert step_of({"kind": "run_ended"}) is None
