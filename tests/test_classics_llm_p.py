"""LLM+P as a SOP: its plan is told in words, and a program finds each step in them again, one by one."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import run
from metaflow_agents.kits.planning import solving
from metaflow_agents.modules import load_function

FOLDER = Path(__file__).parent.parent / "examples" / "classics"
SOP, RULES = FOLDER / "llm_p.yaml", (FOLDER / "pddl" / "blocks.pddl").read_text()
PLAN = {"objects": ["a", "b", "c"], "actions": ["(unstack a b)", "(put-down a)", "(pick-up b)", "(stack b a)"]}
LINES = ["Unstack block a from block b.", "Put block a down on the table.", "Pick up block b.", "Stack block b onto block a."]


def faults(text: str, plan: dict[str, list[str]] = PLAN, rules: str = RULES) -> Any:
    return load_function("telling:faults", [FOLDER])(text, plan, rules)


def text(*lines: str) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def translator() -> Any:
    return runpy.run_path(str(FOLDER / "desk.py"))["translator"]


@pytest.mark.parametrize("lines", [
    LINES,
    ["Unstacking a from b", "Puts A down", "He picked block b up", "Stack the block b, carefully, onto a!"],
    ["unstack `a` from `b`", "put down **a**", "pick-up b", "stacked b a"],
])
def test_a_text_that_tells_the_plan_is_taken(lines: list[str]) -> None:
    assert faults(text(*lines)) == []
    assert faults("\n\n".join(f"  {number}. {line}" for number, line in enumerate(lines, 1))) == []


WRONG = {
    "the last step left out": (LINES[:3], "step 4 of the plan, `(stack b a)`, is left out"),
    "a step left out": ([LINES[0], *LINES[2:]], "step 2 of the plan, `(put-down a)`, is left out"),
    "a step added at the end": ([*LINES, "Pick up c."], "line 5 tells `(pick-up c)`, which is added"),
    "a step told twice": ([*LINES[:2], LINES[1], *LINES[2:]], "tells `(put-down a)`, which is added"),
    "another order": ([LINES[1], LINES[0], *LINES[2:]], "`(put-down a)`, stands in line 1: out of order"),
    "another object": ([*LINES[:3], "Stack c onto a."],
                       "line 4 (`4. Stack c onto a.`) tells `(stack c a)`; step 4 of the plan is `(stack b a)`"),
    "an unknown object": ([*LINES[:3], "Stack d onto a."], "tells `(stack a)`; step 4 of the plan is `(stack b a)`"),
    "objects exchanged": ([*LINES[:3], "Stack a onto b."], "tells `(stack a b)`; step 4 of the plan is `(stack b a)`"),
    "one object more": ([*LINES[:3], "Stack b onto a with c."], "tells `(stack b a c)`; step 4 of the plan is `(stack b a)`"),
    "an article that is an object":
        ([LINES[0], "Put a block down.", *LINES[2:3], "Stack a block b onto a."], "tells `(stack a b a)`"),
    "denied by not": ([*LINES[:2], "Do not pick up b.", LINES[3]], "line 3 (`3. Do not pick up b.`) says `not`"),
    "denied by n't": ([*LINES[:2], "Don't pick up b.", LINES[3]], "says `Don't`"),
    "denied by never": ([*LINES[:2], "Never pick up b.", LINES[3]], "says `never`"),
    "joined": ([*LINES[:2], "Pick up b and paint it.", LINES[3]], "says `and`"),
    "another verb": ([*LINES[:3], "Place b onto a."],
                     "line 4 (`4. Place b onto a.`) tells no action; expected the words of one of these names: pick-up,"),
    "two actions": ([*LINES[:2], "Pick up b to stack it.", LINES[3]], "tells 2 actions, `pick-up`, `stack`"),
    "a long line": (["x" * 500, *LINES[1:]], "has 503 characters: tell the step in at most 400"),
    "nothing": ([], "step 1 of the plan, `(unstack a b)`, is left out"),
    "many lines": (LINES * 20, "there are 80 lines for the 4 steps of the plan"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_text_is_refused_by_name(kind: str) -> None:
    lines, told = WRONG[kind]
    assert any(told in fault for fault in faults(text(*lines))), faults(text(*lines))


def test_numbers_and_other_lines() -> None:
    assert faults(f"Here is the plan:\n{text(*LINES)}") == [
        "`Here is the plan:` is no step, since it begins with no number like `1. `: leave this line out"]
    assert faults(text(*LINES).replace("4.", "5.")) == ["line 4 begins with `5. `: number the lines from 1 to 4"]
    none = {"objects": ["a"], "actions": []}
    assert faults("0. All stands as it should.", none) == []
    assert faults("1. Pick up a.", none) == [
        "the plan has no step: write one line that begins with `0. ` and says that the goal is reached already"]


def test_an_action_whose_name_begins_another_ones_is_told_apart() -> None:
    rules = "; (:action sail :parameters ())\n(:action load) (:ACTION Load-Truck) (:action drive) (:action fly-plane)"
    plan = {"objects": ["t", "l0-0", "l0"], "actions": ["(load-truck l0-0 t)", "(load l0 t)", "(drive t)", "(fly-plane t)"]}
    assert faults(text("Load l0-0 into truck t", "Load l0 into t", "Driving t", "Flies plane t"), plan, rules) == []
    told = faults(text("Load l0-0 into t", "Load l0 into t", "Driving t", "Sail t"), plan, rules)
    assert "step 1 of the plan, `(load-truck l0-0 t)`, is left out" in told and any("tells no action" in one for one in told)


async def told_by(teller: Any) -> Any:
    return await run(SOP, wish="turn them round", given={"plan": PLAN}, rules=FOLDER / "pddl" / "blocks.pddl", model=teller,
                     workspace=None, sandbox="none")


async def test_who_tells_the_plan_is_told_what_is_checked_and_what_was_wrong() -> None:
    asked: list[str] = []

    def teller(request: Any) -> str:
        asked.append("\n".join(str(one["content"]) for one in request.messages))
        return text(*LINES) if len(asked) == 3 else text(*LINES[:3])

    result = await told_by(teller)
    assert result.ok and result["instructions"].strip() == text(*LINES) and len(asked) == 3
    words = (FOLDER / "telling.words.j2").read_text().strip()
    for part in (words, "a, b, c", "1. (unstack a b)", "4. (stack b a)", "each once, in the order", "Write no other line"):
        assert part in asked[0], part
    assert "step 4 of the plan, `(stack b a)`, is left out" in asked[1] and "is left out" not in asked[0]


async def test_a_text_that_stays_wrong_fails_with_the_step_named() -> None:
    result = await told_by(lambda request: text(*LINES[:2], LINES[3]))
    assert not result.ok and "step 3 of the plan, `(pick-up b)`, is left out" in result.reason


@pytest.mark.one_in(16)
@pytest.mark.skipif(bool(solving.missing()), reason=solving.missing())
@pytest.mark.parametrize(("wish", "actions"), [
    ("a is on b, b is on the table. Wanted: b is on a", ["(unstack a b)", "(put-down a)", "(pick-up b)", "(stack b a)"]),
    ("a is on the table, b is on the table. Wanted: b is on a", ["(pick-up b)", "(stack b a)"]),
    ("a is on b, b is on c, c is on the table. Wanted: c is on a",
     ["(unstack a b)", "(put-down a)", "(unstack b c)", "(put-down b)", "(pick-up c)", "(stack c a)"]),
])
async def test_from_the_wish_to_the_words(wish: str, actions: list[str]) -> None:
    """The planner finds a shortest way, and every step of it is told."""
    result = await run(SOP, wish=wish, rules=FOLDER / "pddl" / "blocks.pddl", workspace=None, sandbox="none", model=translator())
    assert result.ok, result.reason
    assert len(result["plan"]["actions"]) == len(actions) and result["plan"]["actions"][-1] == actions[-1], result["plan"]
    assert faults(result["instructions"], result["plan"]) == []
    assert len(result["instructions"].splitlines()) == len(actions)


@pytest.mark.parametrize("kind", ["a step left out", "a step added", "two steps exchanged", "an object renamed", "a step denied"])
def test_the_benchmark_counts_what_is_refused(kind: str) -> None:
    from benchmarks.papers import llm_p

    made = [llm_p.Planned(PLAN, text(*LINES), RULES, True)] * 3
    assert llm_p.refused(made, kind) == (3, 3)
    assert faults("\n".join(llm_p.told(PLAN["actions"]))) == []


@pytest.mark.one_in(48)
@pytest.mark.skipif(bool(solving.missing()), reason=solving.missing())
@pytest.mark.skipif("SOP_TEST_DATA" not in os.environ, reason="SOP_TEST_DATA does not name a folder with public data")
@pytest.mark.parametrize("domain", ["blocksworld", "logistics", "depots"])
async def test_a_public_problem_from_its_story_to_the_words(domain: str) -> None:
    from benchmarks.papers import llm_p

    (made,) = await llm_p.carried_out(Path(os.environ["SOP_TEST_DATA"]), domain, 1, "none")
    assert made.holds and faults(made.text, made.plan, made.rules) == []
