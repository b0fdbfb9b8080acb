"""The time line of a run: rows, bars, retries, sub-SOPs, reuse, kills, the critical path; the same whoever follows it how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, write
from ui_desk import Clocked, Read, read

from metaflow_agents import run
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.schema.keys import innermost
from metaflow_agents.views.ui.critical_path import critical
from metaflow_agents.views.ui.timeline_page import Lines, Wanted

DESK = """
    sop: desk
    inputs: {names: {type: [string], default: [a, b/1, "c~0]", d]}}
    roles: {clerk: {profile: You write.}, judge: {profile: You judge.}}
    artifacts: {letters: {each: string}, count: {schema: integer}, verdict: {schema: {good: boolean}}}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters, retries: 1, on_fail: skip}
      count_them: {value: "letters | length", needs: [letters], makes: count}
      judge_it: {role: judge, needs: [count], sees: [letters], makes: verdict}
"""
OUTER = """
    sop: outer
    inputs: {topics: {type: [string], default: [x, y]}}
    artifacts: {parts: {each: string}}
    steps:
      part: {sop: inner.yaml, needs: [topics], foreach: {in: topics, as: topic}, inputs: {topic: topic}, makes: parts}
"""
INNER = """
    sop: inner
    inputs: {topic: string}
    roles: {clerk: {profile: You write.}}
    artifacts: {draft: {}, text: {}}
    steps:
      draft_it: {role: clerk, needs: [topic], makes: draft}
      polish: {role: clerk, needs: [draft], makes: text}
    outputs: [text]
"""


def letters(request: Any) -> Any:
    if "[b/1]~0" in request.key or "[d]" in request.key:
        raise ValueError("no ink")
    return "text"


async def test_failed_and_repeated_attempts_have_rows_of_their_own(tmp_path: Path) -> None:
    await run(write(tmp_path, DESK), model=Scripted(write=letters, judge_it={"good": True}), workspace=tmp_path, name="it")
    with read(tmp_path, "it") as it:
        page, glance = it.page(), it.journal.glance()
        rows = it.rows()
        assert page["counts"] == {"all": 8, "running": 0, "waiting": 0, "done": 5, "failed": 3, "reused": 0, "stopped": 0,
                                  "repeated": 2}
        lost, again = rows["write@1[b/1]~0"], rows["write@1[b/1]~1"]
        assert (lost["state"], lost["final"], again["state"], again["attempt"]) == ("failed", False, "done", 1)
        assert "no ink" in lost["error"] and again["began"] == lost["ended"]
        assert rows["write@1[d]~1"]["final"] and not rows["write@1[d]~0"]["final"]
        assert [row["item"] for row in page["rows"] if row["step"] == "write" and not row["attempt"]] == ["a", "b/1", "c~0]", "d"]
        assert [row["n"] for row in page["rows"]] == list(range(8))
        assert sum(row["calls"] for row in page["rows"]) == glance.calls and page["ended"] == glance.seconds
        assert page["marks"]["repeated"] == [row["n"] for row in page["rows"] if row["attempt"]]
        assert {row["role"] for row in it.rows(step="write").values()} == {"clerk"}
        assert rows["count_them@1~0"]["role"] == "expression"
        assert [*it.rows(state="failed")] == [*it.rows(text="NO INK")] and it.page(state="repeated")["total"] == 2
        assert it.page(offset=6)["total"] == 8 and len(it.page(offset=6)["rows"]) == 2


async def test_what_happens_in_a_sub_sop_has_rows_and_counts_for_its_step(tmp_path: Path) -> None:
    await run(write(tmp_path, OUTER, inner_yaml=INNER), model=Scripted(), workspace=tmp_path, name="it")
    with read(tmp_path, "it") as it:
        rows = it.rows()
        inner = rows["part@1[x]~0/draft_it@1~0"]
        assert (inner["step"], inner["inside"], inner["role"]) == ("part/draft_it", "part@1[x]~0", "clerk")
        assert rows["part@1[x]~0"]["calls"] == 2 and rows["part@1[x]~0"]["state"] == "done"
        assert rows["part@1[x]~0"]["began"] <= inner["began"] <= inner["ended"] <= rows["part@1[x]~0"]["ended"]
        assert len(it.rows(step="part")) == 6 and len(it.rows(step="part/polish")) == 2
        made = {name: len(versions) for name, versions in it.index.versions.of.items()}
        assert made["part@1[y]~0/text"] == 1 and made["parts"] == 1


async def test_what_was_taken_over_says_from_where(tmp_path: Path) -> None:
    desk, model = write(tmp_path, DESK), Scripted(write="text", judge_it={"good": True})
    await run(desk, model=model, workspace=tmp_path, name="one")
    await run(desk, model=model, workspace=tmp_path, name="two", from_run="one")
    with read(tmp_path, "two") as it:
        states = {row["key"]: (row["state"], row["told"]) for row in it.page()["rows"]}
        assert states["write@1[a]~0"] == ("reused", "taken over from one:write@1[a]") and it.page()["critical"] == []


async def test_a_fold_that_follows_is_the_one_that_reads_it_whole(tmp_path: Path) -> None:
    """Every prefix of a journal folds, and nothing depends on when pages were asked for."""
    await run(write(tmp_path, OUTER, inner_yaml=INNER), model=Scripted(), workspace=tmp_path, name="it")
    with RawJournal(tmp_path / ".journals" / "it.db") as journal:
        following = Read(journal, 0)
        before: dict[str, Any] = {}
        for seq, event in journal.events():
            following.index.take(seq, event)
            whole = Read(journal, seq)
            for alive in (True, False):
                assert following.page(alive=alive) == whole.page(alive=alive)
            now = {key: {**row, "critical": None, "n": None} for key, row in whole.rows().items()}
            changed = {key for key, row in now.items() if row != before.get(key)}
            assert changed <= {*(following.index.lines.touched(seq - 1) or ())}
            before = now
        assert {*(following.index.lines.touched(0) or ())} == before.keys() and following.index.lines.touched(seq) == []



def test_what_a_killed_process_left_is_lost_and_what_nobody_works_on_stopped() -> None:
    it = Clocked()
    it.fired(0, "write")
    it.at(1, "reserved", key="write@1~0/turn.0", model="m", role="clerk")
    it.at(2, "intended", key="write@1~0/turn.0/tool.0", tool="pay")
    lines = Lines(it.timeline, {}, ())
    assert lines.page(Wanted(), alive=True)["rows"][0]["state"] == "running"
    assert lines.page(Wanted(), alive=False)["rows"][0]["state"] == "stopped"
    it.at(100_000, "resumed")
    it.at(100_001, "reserved", key="write@1~0/turn.0", model="m", role="clerk")
    it.at(100_002, "settled", key="write@1~0/turn.0", tokens_in=1)
    it.at(100_003, "asked", key="write@1~0/turn.0/tool.0/may", question="")
    assert lines.page(Wanted(), alive=False)["rows"][0]["state"] == "waiting", "a person is asked, whoever works"
    it.at(200_000, "answered", key="write@1~0/turn.0/tool.0/may", answer="", by="terminal", rested=99_000.0)
    it.finished(200_001, "write@1~0")
    row, = lines.page(Wanted(), alive=False)["rows"]
    bars = {(bar["kind"], bar["began"]): (bar["ended"], bar["state"]) for bar in row["bars"]}
    assert bars["call", 1.0] == (3.0, "lost") and bars["call", 3.0] == (4.0, "done")
    assert bars["tool", 2.0][1] == "lost" and bars["question", 5.0] == (1002.0, "done")
    page = lines.page(Wanted(), alive=False)
    assert page["rests"] == [{"at": 2.0, "seconds": 99_998.0}] and page["ended"] == 1003.0 and row["state"] == "done"


def test_bars_show_waits_commands_checks_and_what_they_said() -> None:
    it = Clocked()
    it.fired(0, "write")
    it.call("write@1~0", 1, 2, error="429", again=True, wait=5.0, trouble="rate", calls=0)
    it.at(7, "reserved", key="write@1~0/turn.0", model="m", role="clerk", **{"try": 1})
    it.at(9, "settled", key="write@1~0/turn.0", **{"try": 1})
    it.at(9, "observed", key="write@1~0/turn.0/repaired", payload="")
    it.at(12, "observed", key="write@1~0/checked.0", payload="", seconds=3.0)
    it.at(12, "reserved", key="write@1~0/check.1", model="m", role="clerk")
    it.at(13, "settled", key="write@1~0/check.1")
    it.at(14, "observed", key="write@1~0/checked.1", payload="", seconds=1.0)
    it.at(15, "done", key="write@1~0/check.1/tool.0", seconds=0.5, error=True, refused=True)
    it.at(16, "observed", key="write@1~0/recalled", payload="", seconds=0.0)
    it.finished(16, "write@1~0")
    it.fired(16, "test")
    it.at(20, "observed", key="test@1~0/run", payload="", seconds=4.0)
    it.finished(20, "test@1~0")
    rows = {row["key"]: row for row in Lines(it.timeline, {}, ()).page(Wanted(), alive=False)["rows"]}
    bars = [(bar["kind"], bar["began"], bar["ended"], bar["state"], bar["told"]) for bar in rows["write@1~0"]["bars"]]
    assert bars == [
        ("call", 1.0, 2.0, "failed", "m: 429"), ("wait", 2.0, 7.0, "done", "before the next try: rate"),
        ("call", 7.0, 9.0, "done", "m, try 2, answer repaired"), ("check", 9.0, 12.0, "failed", ""),
        ("call", 12.0, 13.0, "done", "m"), ("check", 13.0, 14.0, "done", ""), ("tool", 14.5, 15.0, "failed", "refused")]
    assert [(bar["kind"], bar["began"], bar["ended"]) for bar in rows["test@1~0"]["bars"]] == [("command", 16.0, 20.0)]


def test_very_many_bars_are_told_together_and_none_is_hidden() -> None:
    it = Clocked()
    it.fired(0, "write")
    for number in range(3000):
        it.at(number, "reserved", key=f"write@1~0/vote.s{number}", model="m")
        it.at(number + 0.5, "settled", key=f"write@1~0/vote.s{number}", **({"error": "no"} if number == 1234 else {}))
    row, = Lines(it.timeline, {}, ()).page(Wanted(), alive=False)["rows"]
    assert len(row["bars"]) <= 400 and row["bars"][0]["began"] == 0.0 and row["bars"][-1]["ended"] == 2999.5
    failed, = [bar for bar in row["bars"] if bar["state"] == "failed"]
    assert failed["began"] <= 1234 <= failed["ended"] and row["calls"] == 3000


def wide(times: dict[str, tuple[float, float]], aside: float) -> Clocked:
    """Items with when they began and ended; what comes after reads them; and a side step that took long but not longest."""
    it = Clocked()
    it.committed(0, None, "names")
    it.fired(1, "write", items=[*times], names=1)
    it.fired(1, "aside", names=1)
    happened = [*((began, "began", key) for key, (began, _) in times.items()), (aside, "aside", ""),
                *((ended, "ended", key) for key, (_, ended) in times.items())]
    for second, what, key in sorted(happened, key=lambda one: (one[0], one[1] == "began")):
        if what == "began":
            it.at(second, "reserved", key=f"write@1[{key}]~0/turn.0", model="m")
        else:
            it.finished(second, f"write@1[{key}]~0" if what == "ended" else "aside@1~0")
    end = max(ended for _, ended in times.values())
    it.committed(end, "write@1", "letters")
    it.fired(end, "bind", letters=1)
    it.finished(end + 2, "bind@1~0")
    it.committed(end + 2, "bind@1", "book")
    return it


def test_the_critical_path_goes_through_what_waited_for_its_turn_and_says_what_that_cost() -> None:
    two_at_once = wide({"a": (1, 3), "b": (1, 3.5), "c": (3, 5), "d": (3.5, 5.5)}, aside=5)
    found = critical(two_at_once.timeline)
    assert found.keys == ("write@1[b]~0", "write@1[d]~0", "bind@1~0")
    # Alone `b` would be the longest, 2.5 s: it begins at 1, `bind` would end at 5.5 and not at 7.5.
    assert found.saved == pytest.approx(2.0)
    assert critical(two_at_once.timeline, {"write"}).saved == 0.0, "items that come after each other can't be at once"
    free = critical(wide({"a": (1, 3), "b": (1, 3.5), "c": (1, 3.6), "d": (1, 3.7)}, aside=3.5).timeline)
    assert free.keys == ("write@1[d]~0", "bind@1~0") and free.saved == 0.0


def test_the_critical_path_goes_through_attempts_rounds_and_sub_sops() -> None:
    it = Clocked()
    it.committed(0, None, "topic")
    it.fired(0, "write", topic=1)
    it.at(2, "failed", activation="write@1~0", error="no")
    it.finished(3, "write@1~1")
    it.committed(3, "write@1", "draft")
    it.fired(3, "part", draft=1)
    it.at(3, "inner", activation="part@1~0", event={"kind": "fired", "step": "inside", "round": 1, "read": {}})
    it.at(8, "inner", activation="part@1~0", event={"kind": "finished", "activation": "inside@1~0", "payload": ""})
    it.finished(8, "part@1~0")
    it.committed(8, "part@1", "verdict")
    it.fired(8, "write", 2, verdict=1)
    it.finished(9, "write@2~0")
    assert critical(it.timeline).keys == ("write@1~0", "write@1~1", "part@1~0", "part@1~0/inside@1~0", "write@2~0")


@pytest.mark.parametrize(("key", "way", "rest"), [
    ("w@1~0", ("w@1~0",), ""), ("w@1[a~0/b]~2/turn.0", ("w@1[a~0/b]~2",), "turn.0"),
    ("w@1[x]~0/d@2~1/turn.0/tool.1", ("w@1[x]~0", "d@2~1"), "turn.0/tool.1")])
def test_the_innermost_activation_of_a_key(key: str, way: tuple[str, ...], rest: str) -> None:
    assert innermost(key) == (way, rest)
    with pytest.raises(ValueError, match="is not an activation"):
        innermost("turn.0")


async def test_a_run_that_asks_a_person_waits(tmp_path: Path) -> None:
    desk = write(tmp_path, """
        sop: ask
        inputs: {topic: {type: string, default: tea}}
        artifacts: {said: {}}
        steps: {ask_it: {human: text, needs: [topic], task: "What of {{ topic }}?", makes: said}}
    """)
    await run(desk, workspace=tmp_path, name="it")
    with read(tmp_path, "it") as it:
        row, = it.page()["rows"]
        assert (row["state"], [bar["kind"] for bar in row["bars"]]) == ("waiting", ["question"])
