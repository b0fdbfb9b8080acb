"""PDCA as a SOP: changes are measured by a command and kept only if they help; what was learned is in the next plan's prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import RunResult, check, run
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.modules import load_function

FOLDER = Path(__file__).parent.parent / "examples" / "classics" / "pdca"
SOP = FOLDER / "pdca.yaml"
TASK: dict[str, Any] = {
    "goal": "no faulty cells", "folder": FOLDER / "sample", "measure": "python faults.py", "target": 0, "change": "*.csv"}


def function(name: str) -> Any:
    return load_function(name, [FOLDER])


async def went(model: Any, budget: dict[str, Any] | None = None, **inputs: Any) -> RunResult:
    return await run(SOP, inputs={**TASK, **inputs}, model=model, workspace=None, sandbox="none", budget=budget)


def test_it_is_short_and_checks() -> None:
    assert len(SOP.read_text().splitlines()) < 120
    assert list(check(SOP).problems) == []
    assert len((FOLDER / "README.md").read_text().splitlines()) < 20


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", ["walks_through", "what_is_learned_changes_the_plan", "the_rounds_are_used_up"])
async def test_it_passes_its_tests(case: str) -> None:
    (verdict,) = [verdict async for verdict in try_out(SOP, [case], sandbox="none")]
    assert verdict.ok, verdict.why


@pytest.mark.one_in(4)
async def test_it_goes_on_after_its_budget_was_used_up(tmp_path: Path) -> None:
    from metaflow_agents import resume

    first = await run(SOP, inputs=TASK, model=function("desk:clerk"), workspace=tmp_path, name="short", sandbox="none",
                      budget={"calls": 4})
    assert first.outcome == "budget"
    again = await resume("short", model=function("desk:clerk"), workspace=tmp_path, budget={"calls": 40})
    assert again.ok and "The goal is reached: 0, with 3 of 5 rounds." in again["log"]


async def test_a_models_word_is_no_number() -> None:
    """It says that the goal is reached, in its plan, its file and its lesson; the command still counts four faults."""
    result = await went(function("desk:boaster"), rounds=1)
    assert not result.ok and result["checked"]["best"] == 4 and not result["checked"]["ok"]
    assert "The goal is not reached: the best is 4, and all 1 rounds are used." in result["log"]
    assert "The goal is reached, the number is 0." in result["log"], "what was learned is there as it was said"
    assert sorted(result["work"]) == ["faults.py", "people.csv"], "a change that did not help is rolled back"


async def test_a_budget_that_is_used_up_leaves_the_log() -> None:
    result = await went(function("desk:clerk"), {"calls": 3})
    assert result.outcome == "budget" and "calls" in result.reason
    assert "not reached yet: the best is 4. 1 of 5 rounds are used, 4 are left." in result.artifacts["log"]
    assert "has used up its budget" in result.artifacts["log"]


async def test_what_the_planner_is_told(tmp_path: Path) -> None:
    """What is known, what was tried, what came of it, how many rounds are left; and no word of this SOP's machinery."""
    asked: dict[str, list[str]] = {}

    def model(request: Any) -> Any:
        asked.setdefault(request.step, []).append("\n".join(str(one["content"]) for one in request.messages))
        return function("desk:clerk")(request)

    assert (await went(model, rounds=5)).ok
    first, second, third = asked["plan_next"]
    for part in ("Goal: no faulty cells", "at most 0, printed by `python faults.py`", "0 of 5 rounds are used, 5 are left",
                 "Before any change: 4.", "fit `*.csv`",
                 "Emmy: born is '23.3.1882'"):
        assert part in first, part
    assert "Learned:" not in first
    for part in ("1 of 5 rounds are used, 4 are left", "Tried: Write dates as D.M.Y.",
                 "Expected: 1. Measured: 4, as much as the best before, 4: the change is rolled back",
                 "Learned: D.M.Y is still a fault"):
        assert part in second, part
    assert "Measured: 1, better than the best before, 4: the change is kept" in third
    assert "-Maria,16/5/1718,IT" in asked["learn"][0] and "Maria: born is '16.5.1718'" in asked["learn"][0]
    assert "Then `python faults.py` is run" in asked["do_it"][0]


async def test_files_that_may_not_be_changed_are_refused_by_name() -> None:
    told: list[str] = []

    def cheat(request: Any) -> Any:
        if request.step != "do_it":
            return function("desk:clerk")(request)
        told.append(str(request.messages[-1]["content"]))
        return "=== file: faults.py ===\nprint(0)\n=== end ==="

    result = await went(cheat, rounds=1)
    assert not result.ok and result["checked"]["best"] == 4
    assert len(told) == 3 and "`faults.py` may not be changed, only files that fit `*.csv`" in told[1]


@pytest.mark.parametrize(("inputs", "told"), [
    ({"measure": "echo many"}, "measure: The command gave no number: its last line is `many`; give a command that"),
    ({"measure": "echo 3; echo off >&2; exit 2"}, "it ended with status 2, and its last words are: off"),
    ({"measure": "echo nan"}, "its last line is `nan`"), ({"measure": "true"}, "its last line is ``"),
    ({"change": "*.tsv"}, "change: no file fits `*.tsv`; there is: faults.py, people.csv"),
])
async def test_what_can_not_be_measured_ends_before_a_model_is_asked(inputs: dict[str, str], told: str) -> None:
    def none(request: Any) -> Any:
        raise AssertionError("a model was asked")

    result = await went(none, **inputs)
    assert not result.ok and told in result.reason


async def test_a_goal_that_is_reached_already() -> None:
    result = await went(lambda request: 1 / 0, target=4)
    assert result.ok and "The goal is reached: 4, with 0 of 5 rounds." in result["log"]


def measured(printed: str, exit_code: int = 0) -> dict[str, Any]:
    return {"stdout": printed, "stderr": "", "exit_code": exit_code}


@pytest.mark.parametrize(("better", "printed", "kept", "ok", "ended"), [
    ("lower", "4.5", True, False, "no"), ("lower", "3", True, True, "goal"), ("lower", "5", False, False, "no"),
    ("higher", "5", False, True, "goal"), ("higher", "6", True, True, "goal"), ("lower", "soon", False, False, "no"),
])
def test_a_number_against_the_best_and_the_goal(better: str, printed: str, kept: bool, ok: bool, ended: str) -> None:
    past = [{"best": 5, "version": 0, "round": 0, "printed": "5"}]
    found = function("measuring:checked")(measured(printed), [{"a": "1\n"}, {"a": "2\n"}], past, 3, better, "*", 4)
    assert (found["kept"], found["ok"], found["ended"], found["version"]) == (kept, ok, ended, int(kept))
    assert found["diff"] == "--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2"
    last = function("measuring:checked")(measured("9"), [{"a": "1\n"}] * 2, past * 4, 3, "lower", "*", 4)
    assert last["ended"] == "rounds"


def test_what_did_not_help_is_rolled_back() -> None:
    versions = [{"a": "1", "b": "1"}, {"a": "2", "b": "1"}, {"a": "3", "c": "1"}]
    assert function("measuring:kept")(versions, {"version": 1}) == {"a": "2", "b": "1", "c": None}
