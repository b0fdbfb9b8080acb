"""Reflections (`memory.reflect`): when, over what, what they cite, what they are worth; in a run, over runs and over stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_desk import sop
from scripted import Scripted, events, write
from stopping import stopped_everywhere

from benchmarks.papers.reflections import CARES, DIARY, SUMS, TOWN, WITHOUT, lived, rows, villager
from metaflow_agents import check, run
from metaflow_agents.memory.store import PLACE, MemoryDatabase
from metaflow_agents.schema.event import Finished, Settled


async def test_the_trigger_is_the_sum_computed_by_hand(tmp_path: Path) -> None:
    sums, _ = await lived(tmp_path)
    assert sums == SUMS
    calls = {event.key for event in events(tmp_path, "town", Settled)}
    assert {key for key in calls if key.endswith("/reflect/questions")} == {
        "live@3[Klaus]~0/reflect/questions", "live@2[Maria]~0/reflect/questions"}
    assert len([key for key in calls if "/reflect/insights." in key]) == 2 * 3


@pytest.mark.one_in(4)
async def test_what_they_know_in_the_end_they_know_by_reflecting(tmp_path: Path) -> None:
    _, said = await lived(tmp_path)
    assert said == CARES
    (tmp_path / "without").mkdir()
    _, without = await lived(tmp_path / "without", WITHOUT)
    assert set(without.values()) == {"nothing"}


@pytest.mark.one_in(4)
def test_the_papers_table_has_these_figures() -> None:
    assert [row.here for row in rows(Path())] == [
        "12 of 12 sums as computed by hand; reflected after 3 and 2 days, and never", "2 of 2 with, 0 of 2 without"]


@pytest.mark.one_in(4)
async def test_insights_cite_the_memories_they_rest_on_and_are_shown_with_them(tmp_path: Path) -> None:
    await lived(tmp_path)
    store = MemoryDatabase(tmp_path / PLACE)
    found = {one.activation: one for one in store.listed(kind="reflection")}
    assert set(found) == {"live@3[Klaus]~0", "live@2[Maria]~0"} and all(one.importance == 9 for one in found.values())
    by_key = {one.key: one for one in store.listed()}
    rests = [by_key[key].activation for key in found["live@3[Klaus]~0"].cites]
    assert rests == ["live@1[Klaus]~0", "live@3[Klaus]~0"], "the one of this very activation too"
    assert [by_key[key].activation for key in found["live@2[Maria]~0"].cites] == ["live@1[Maria]~0", "live@2[Maria]~0"]
    store.close()
    told = sop(tmp_path, "memory", "show", "--kind", "reflection", "--role", "villager[Maria]", "--workspace", str(tmp_path))
    assert told.returncode == 0 and "party before all else" in told.stdout and "rests on" in told.stdout
    assert "research" not in told.stdout


@pytest.mark.one_in(8)
async def test_stopped_at_every_call_they_come_to_see_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, TOWN)
    whole = await stopped_everywhere(path, lambda: villager, tmp_path, people=list(DIARY), diary=DIARY)
    assert dict(whole.result["answers"]) == CARES


DESK = """
    sop: desk
    inputs: {letter: LETTER}
    roles: {clerk: {profile: You answer., memory: {recall: {from: WHERE}, reflect: {after: 10}}}}
    artifacts: {answer: {}}
    steps: {write: {role: clerk, needs: [letter], makes: answer, task: Answer the letter.}}
"""


def clerk() -> Scripted:
    def said(request: Any) -> Any:
        if request.key.endswith("/importance"):
            return {"importance": 4}
        if request.key.endswith("/questions"):
            return {"questions": ["What is asked?", "Who asks?", "Why?"]}
        if "/insights." in request.key:
            return {"insights": [{"insight": f"seen in {request.key}", "because": [1], "importance": 2}]}
        return "an answer"
    return Scripted(write=said)


async def reflected(folder: Path, text: str, runs: int) -> list[int]:
    """Which of so many runs, one after the other, reflected."""
    path, found = write(folder, text), []
    for number in range(1, runs + 1):
        model = clerk()
        await run(path, letter=f"letter {number}", model=model, workspace=folder, name=f"r{number}")
        found += [number] if any(key.endswith("/reflect/questions") for key in model.keys) else []
    return found


async def test_importance_comes_together_over_runs_and_begins_anew(
        tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """4, 8, 12 ≥ 10; anew: 4, 8, 12 ≥ 10. That each insight has an importance of its own does not count."""
    text = DESK.replace("LETTER", "string")
    assert await reflected(tmp_path, text.replace("WHERE", "role"), 7) == [3, 6]
    elsewhere = tmp_path_factory.mktemp("run")
    assert await reflected(elsewhere, text.replace("WHERE", "run"), 4) == [], "other runs do not count"


async def test_what_rests_on_untrusted_words_is_untrusted(tmp_path: Path) -> None:
    text = DESK.replace("WHERE", "role").replace("LETTER", "{type: string, trusted: false}")
    await reflected(tmp_path, text, 3)
    (finished,) = events(tmp_path, "r3", Finished)
    assert len(finished.besides) == 3 and all("letter" in entry.untrusted for entry in finished.besides)


async def test_an_insight_is_as_untrusted_as_the_memories_that_its_question_was_asked_over(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter is no memory that was found for a question, and stands among those from which the questions were made."""
    monkeypatch.setattr("metaflow_agents.agent.reflecting.STATEMENTS", 1)
    path = write(tmp_path, """
        sop: aside
        inputs: {letter: {type: string, trusted: false}}
        roles: {clerk: {profile: You answer., memory: {window: 1 tokens, reflect: {after: 12}}}}
        artifacts: {urgent: {schema: boolean}, asked: {}, all_of_it: {}}
        steps:
          read: {role: clerk, needs: [letter], makes: urgent, task: Read it.}
          note: {role: clerk, needs: [urgent], makes: asked, task: What is asked?}
          sum: {role: clerk, needs: [asked], makes: all_of_it, task: Sum it up.}
    """)
    model = clerk()
    model.answers.update(read=True, note=model.answers["write"], sum=model.answers["write"])
    assert (await run(path, letter="x", model=model, workspace=tmp_path, name="aside")).ok
    read, note, last = events(tmp_path, "aside", Finished)
    assert read.memory.untrusted and not note.memory.untrusted and not last.memory.untrusted and not last.untrusted
    store = MemoryDatabase(tmp_path / PLACE)
    cited = {one.activation for one in store.listed() if one.key in {key for entry in last.besides for key in entry.cites}}
    store.close()
    assert cited == {"note@1~0"} and all("letter" in entry.untrusted for entry in last.besides)


async def test_a_reflection_that_fails_costs_only_itself_and_bounds_count_it(tmp_path: Path) -> None:
    path = write(tmp_path, DESK.replace("WHERE", "role").replace("LETTER", "string").replace("after: 10", "after: 1"))
    model, fine = clerk(), clerk().answers["write"]
    model.answers["write"] = lambda request: "no form" if "/questions" in request.key else fine(request)
    assert (await run(path, letter="x", model=model, workspace=tmp_path)).ok
    bounds = check(path).bounds
    assert bounds is not None and bounds.calls == 3 + 3 + (1 + 3) * 3


async def test_items_that_share_a_memory_reflect_once(tmp_path: Path) -> None:
    text = """
        sop: shared
        inputs: {names: [string]}
        roles: {clerk: {profile: You answer., memory: {recall: {}, reflect: {after: 1}}}}
        artifacts: {answers: {each: string}}
        steps: {write: {role: clerk, needs: [names], foreach: {in: names}, makes: answers SELF}}
    """
    for written, wanted in (("", ["write@1[a]~0"]), (', self: "{{ item }}"', ["write@1[a]~0", "write@1[b]~0"])):
        model = clerk()
        await run(write(tmp_path, text.replace(" SELF", written)), names=["a", "b"], model=model, workspace=None)
        assert sorted({key.partition("/")[0] for key in model.keys if "/reflect/" in key}) == wanted


async def test_from_takes_what_was_seen_over(tmp_path: Path) -> None:
    path = write(tmp_path, DESK.replace("WHERE", "run").replace("LETTER", "string").replace("after: 10", "after: 1"))
    await run(path, letter="x", model=clerk(), workspace=tmp_path, name="a")
    again = clerk()
    await run(path, letter="x", model=again, workspace=tmp_path, name="b", from_run="a")
    assert again.keys == [] and events(tmp_path, "b", Finished)[0].besides == events(tmp_path, "a", Finished)[0].besides
    assert len(MemoryDatabase(tmp_path / PLACE).listed(kind="reflection")) == 6
