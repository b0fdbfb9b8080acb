"""The audit: records that were altered, removed or cut off the end are noticed; the head lies outside of the workspace."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from cli_desk import sop
from test_agent_tools import FILES, TEXT, Script, calls
from test_agent_tools import sop as written

from metaflow_agents import run, start
from metaflow_agents.journal.audit import RECORDS, Head, Heads, chained, verified
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.state import RunState
from metaflow_agents.questions.question import Answer, Question
from metaflow_agents.schema.event import Decided, RunOpened
from metaflow_agents.settings import Settings

WORDS = [("write", {"path": f"src/{name}", "text": text}) for name, text in (("a", "1"), ("b", "2"), ("c", "3"))]


@pytest.fixture
async def acted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A run of three decisions: its journal, and the folder of heads."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    model = Script(calls(*WORDS), "done")
    async with start(written(tmp_path, FILES, "write"), topic="x", model=model, workspace=tmp_path / "workspace", name="acted",
                     settings=Settings.read()) as going:
        assert (await going.result()).ok
    return tmp_path / "workspace" / ".journals" / "acted.db", tmp_path / "state" / "sop" / "audit"


def audit(folder: Path, *more: str) -> tuple[int, str]:
    done = sop(folder, "log", "acted", "--audit", *more)
    return done.returncode, done.stdout


@pytest.mark.one_in(4)
async def test_what_was_written_is_as_it_was(acted: tuple[Path, Path]) -> None:
    journal, heads = acted
    (head,) = heads.iterdir()
    assert json.loads(head.read_text())["records"] == 3
    status, told = audit(journal.parents[2])
    assert status == 0 and "3 records; they are as they were written" in told
    assert told.count("+ allow write(") == 3


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("change", "told"), [
    ("UPDATE events SET data = replace(data, 'src/b', 'src/z') WHERE kind = 'decided'", "is not what was written"),
    ("DELETE FROM events WHERE seq = (SELECT seq FROM events WHERE kind = 'decided' LIMIT 1 OFFSET 1)", ""),
    ("DELETE FROM events WHERE seq >= (SELECT max(seq) FROM events WHERE kind = 'decided')",
     "1 record is cut off the end: there were 3"),
])
async def test_what_is_not_is_noticed(acted: tuple[Path, Path], change: str, told: str) -> None:
    journal, _ = acted
    with sqlite3.connect(journal) as opened:
        opened.execute(change)
    opened.close()
    status, said = audit(journal.parents[2])
    assert status == 1 and told in said, said


@pytest.mark.one_in(4)
@pytest.mark.parametrize("change", ["data = '{'", "kind = 'nonsense'"])
async def test_a_record_that_is_none_is_told_in_one_line(acted: tuple[Path, Path], change: str) -> None:
    journal, _ = acted
    with sqlite3.connect(journal) as opened:
        opened.execute(f"UPDATE events SET {change} WHERE kind = 'decided'")
    opened.close()
    ended = sop(journal.parents[2], "log", "acted", "--audit")
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and "pydantic" not in ended.stderr, ended.stderr


async def test_a_chain_that_is_written_anew_is_not_the_one_that_the_head_knows(acted: tuple[Path, Path]) -> None:
    journal, heads = acted
    with Journal.read(journal) as opened:
        records = [(seq, event) for seq, event in opened.events() if isinstance(event, RECORDS)]
        head = Heads(heads).read(opened.state.opened or RunOpened(run="", sop="", compiled="", sources={}, entry=""), journal)
    assert head is not None and verified(records, head).faults == ()
    state, forged = RunState(), []
    for seq, record in records:
        changed = record.model_copy(update={"rule": "allow everything"}) if isinstance(record, Decided) else record
        link = chained(state, changed)
        state.chain = link.chain
        forged.append((seq, link))
    assert verified(forged, None).faults == ()
    assert "written anew" in verified(forged, head).faults[0]


def test_records_past_the_head_are_no_fault() -> None:
    state = RunState()
    first = chained(state, Decided(key="a@1~0/turn.0/tool.0", role="r", tool="t", action="a", verdict="deny", rule="r"))
    state.chain = first.chain
    second = chained(state, Decided(key="a@1~0/turn.0/tool.1", role="r", tool="t", action="b", verdict="deny", rule="r"))
    records = [(1, first), (2, second)]
    assert verified(records, Head(1, first.chain)).faults == ()         # it was killed between the journal and the head
    assert verified(records[:1], Head(2, second.chain)).faults
    assert verified([(2, second)], None).faults


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("change", "told"), [
    ("UPDATE events SET data = replace(data, '\"at\":1', '\"at\":2') WHERE kind = 'answered'", "is not what was written"),
    ("UPDATE blobs SET data = CAST('{\"verdict\":\"yes\"}' AS BLOB) WHERE CAST(data AS TEXT) LIKE '%never%verdict%'",
     "what was said in event"),
])
@pytest.mark.parametrize("more", [(), ("--json",)])
async def test_what_a_person_said_and_when_is_noticed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, told: str, more: tuple[str, ...]) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    async def person(question: Question, number: int) -> Answer | None:
        return Answer(verdict="no", text="never")

    model = Script(calls(("fetch", {"url": "https://example.com/"})), "done")
    path = written(tmp_path, TEXT, "fetch")
    assert (await run(path, topic="x", model=model, workspace=tmp_path / "workspace", name="acted", asker=person)).ok
    assert audit(tmp_path, *more)[0] == 0
    with sqlite3.connect(tmp_path / "workspace" / ".journals" / "acted.db") as opened:
        assert opened.execute(change).rowcount == 1
    opened.close()
    status, said = audit(tmp_path, *more)
    assert status == 1 and told in " ".join(said.split()), said
