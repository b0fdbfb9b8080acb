"""The fold behind a run's page agrees with the run's own state after every event; and what the page says of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import crash_thinking as thinking
import pytest
from cli_desk import lay_out, sop
from crash_pool import scratch
from crash_scenes import SCENES
from test_sub_sops import book
from test_views_inside import MODEL

from metaflow_agents.api.run import start
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.journal.state import RunState
from metaflow_agents.schema.program import Program
from metaflow_agents.views.ui.overview import Page, Stands
from metaflow_agents.views.ui.progress import Progress


def compare(path: Path) -> None:
    """The two folds, after each event."""
    state, progress = RunState(), Progress()
    with Journal.read(path) as journal, RawJournal(path) as raw:
        for (seq, event), (number, row) in zip(journal.events(), raw.events(), strict=True):
            state.apply(seq, event)
            progress.take(number, row)
            assert (shown(progress), seq) == (told(state), number), event


def told(state: RunState) -> dict[str, Any]:
    spent = state.total()
    return {"seq": state.seq, "elapsed": round(state.elapsed, 6), "activations": state.activations, "spent": spent,
            "versions": {name: len(made) for name, made in state.versions.items()}, "fired": state.fired, "maker": state.maker,
            "cursor": state.cursor, "questions": {key: state.asked[key] for key in state.questions},
            "active": {key: (one.round, None if one.items is None else len(one.items), len(one.done), len(one.lost))
                       for key, one in state.active.items()},
            "steps": {step: [one.calls, one.tokens] for step, one in by_step(state).items() if one.calls},
            "ended": None if state.ended is None else (state.ended.outcome, dict(state.ended.never)),
            "compiled": state.compiled, "budget": state.budget}


def by_step(state: RunState) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (_, step), spent in state.spent.items():
        found[step] = found[step] + spent if step in found else spent
    return found


def shown(progress: Progress) -> dict[str, Any]:
    return {"seq": progress.seq, "elapsed": round(progress.clock.elapsed, 6), "activations": progress.activations,
            "spent": progress.total, "versions": progress.versions, "fired": progress.fired, "maker": progress.maker,
            "cursor": progress.cursor, "questions": {key: asked.number for key, asked in progress.questions.items()},
            "active": {key: (firing.round, firing.items, firing.done, firing.failed)
                       for step in progress.steps.values() for key, firing in step.active.items()},
            "steps": {name: [step.spent.calls, step.spent.tokens] for name, step in progress.steps.items() if step.spent.calls},
            "ended": (progress.outcome, dict(progress.never)) if progress.outcome else None,
            "compiled": progress.compiled, "budget": progress.budget}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.skipif(bool(scene.missing), reason=scene.missing))
                                  for name, scene in SCENES.items()])
def test_it_agrees_with_the_state_of_the_run(name: str) -> None:
    with scratch() as folder, thinking.staged(folder / "home"):
        home = folder / "home"
        home.mkdir(exist_ok=True)
        assert thinking.live(name, home) == 0
        compare(journal_path(home, thinking.NAME))


@pytest.mark.slow
def test_it_agrees_where_items_fail_steps_loop_and_sops_are_steps(tmp_path: Path) -> None:
    lay_out(tmp_path)
    (tmp_path / "m.py").write_text("\n".join(line[4:] for line in MODEL.splitlines()))
    book(tmp_path)
    runs = {"looped": ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:answer"],
            "stubborn": ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:stubborn"],
            "broken": ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:broken"],
            "book": ["desk.yaml", "--topic", "rain", "--model", "python:m.py:answer"],
            "capped": ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:answer", "--budget", "calls=3"],
            "until": ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:answer", "--until", "judge_it"]}
    statuses = {name: sop(tmp_path, "run", *words, "--name", name).returncode for name, words in runs.items()}
    assert statuses == {"looped": 0, "stubborn": 1, "broken": 1, "book": 0, "capped": 3, "until": 0}
    assert sop(tmp_path, "resume", "capped", "--budget", "calls=30").returncode == 0
    assert sop(tmp_path, "resume", "until").returncode == 0
    assert sop(tmp_path, "fork", "looped", "--at", "mend_it@1", "--name", "branch").returncode == 0
    assert sop(tmp_path, "resume", "branch").returncode == 0
    for name in (*runs, "branch"):
        compare(journal_path(tmp_path / "workspace", name))


def page_of(path: Path, until: int | None = None) -> tuple[Page, Progress]:
    progress = Progress()
    with RawJournal(path) as raw:
        for seq, event in raw.events(until=until):
            progress.take(seq, event)
        return Page(Program.model_validate_json(raw.blob(progress.compiled))), progress


def steps_at(path: Path, kind: str, place: str) -> dict[str, dict[str, Any]]:
    """How the steps stood after the first event of that kind that speaks of that place."""
    with RawJournal(path) as raw:
        seq = next(seq for seq, event in raw.events() if event["kind"] == kind and place in str(event))
    page, progress = page_of(path, seq)
    return page.steps(progress, Stands("running", "", 0.0))


@pytest.mark.one_in(8, always=False)
def test_what_the_page_says_of_steps_under_way(tmp_path: Path) -> None:
    lay_out(tmp_path)
    (tmp_path / "m.py").write_text("\n".join(line[4:] for line in MODEL.splitlines()))
    book(tmp_path)
    looped = ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:answer", "--name", "it"]
    assert sop(tmp_path, "run", *looped).returncode == 0
    assert sop(tmp_path, "run", "desk.yaml", "--topic", "rain", "--model", "python:m.py:answer", "--name", "book").returncode == 0
    it, inside = (journal_path(tmp_path / "workspace", name) for name in ("it", "book"))
    begun = steps_at(it, "fired", "write_it")
    assert {name: (one["state"], one["told"]) for name, one in begun.items()} == {
        "write_it": ("running", ""), "judge_it": ("waiting", "waits for draft (write_it, mend_it)"),
        "mend_it": ("waiting", "waits for verdict (judge_it)"),
        "cut_it": ("waiting", "waits for draft (write_it, mend_it), verdict (judge_it)"),
        "print_it": ("waiting", "waits for draft (write_it, mend_it)"),
        "extend_it": ("waiting", "waits for draft (write_it, mend_it)"), "bind_it": ("waiting", "waits for pieces (cut_it)")}
    again = steps_at(it, "fired", "'step': 'judge_it', 'round': 2")
    assert again["judge_it"]["told"] == "round 2" and again["judge_it"]["maker_of"] == ["verdict@1"]
    assert again["mend_it"]["state"] == "done" and again["cut_it"]["told"].startswith("after ")
    cutting = steps_at(it, "finished", "cut_it@1")
    assert cutting["cut_it"]["items"]["of"] == 3 and cutting["cut_it"]["items"]["done"] == 1
    drafting = steps_at(inside, "inner", "'kind': 'fired'")
    assert next(one["told"] for one in drafting.values() if one["state"] == "running").startswith("0 of 2 items, in ")


def test_a_step_that_stops_the_run_has_failed_and_one_that_was_interrupted_waits(tmp_path: Path) -> None:
    lay_out(tmp_path)
    asyncio.run(_broken(tmp_path))
    page, progress = page_of(journal_path(tmp_path, "it"))
    stopped = page.steps(progress, Stands(progress.outcome, progress.reason, 0.0))
    assert progress.outcome == "stopped" and stopped["write_it"]["state"] == "failed" and "no pen" in stopped["write_it"]["told"]
    with RawJournal(journal_path(tmp_path, "it")) as raw:
        fired = next(seq for seq, event in raw.events("fired"))
    page, progress = page_of(journal_path(tmp_path, "it"), fired)
    killed = page.steps(progress, Stands("killed", "", 0.0))
    assert (killed["write_it"]["state"], killed["judge_it"]["state"]) == ("waiting", "waiting")
    assert "interrupted" in killed["write_it"]["told"] and page.done(killed) == {"done": 0, "of": 7, "share": 0.0}


async def _broken(folder: Path) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no pen")

    async with start(folder / "looped.yaml", inputs={"topic": "tea"}, model=broken, workspace=folder, name="it") as going:
        await going.result()


@pytest.mark.one_in(4)
def test_spending_stands_against_its_caps(tmp_path: Path) -> None:
    lay_out(tmp_path)
    words = ["looped.yaml", "--topic", "tea", "--model", "python:desk.py:answer", "--name", "it", "--budget", "calls=3,time=1h"]
    assert sop(tmp_path, "run", *words).returncode == 3
    page, progress = page_of(journal_path(tmp_path / "workspace", "it"))
    caps = {cap["what"]: cap for cap in page.caps(progress, Stands(progress.outcome, "", 0.0))}
    assert caps["calls"] == {"what": "calls", "spent": 3, "cap": 3, "told": "3 of 3"} and caps["time"]["cap"] == 3600
    assert caps["tokens"]["cap"] is None and caps["usd"]["told"] == "$0"
