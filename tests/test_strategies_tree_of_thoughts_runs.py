"""Runs of trees of thoughts: parameters and bounds, stopped anywhere and gone on with, and GPT-4's log through the strategy."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from stopping import NAME, stopped_everywhere
from thought_tree import LEADS_ASTRAY, LETTERS, SOP, UNTYPED, Tree, astray, desk, noted, solved

from benchmarks.papers import tree_of_thoughts as papers
from metaflow_agents import check, resume, run
from metaflow_agents.schema.strategies import STRATEGIES

DATA = os.environ.get("SOP_TEST_DATA")


async def test_the_dry_model_walks_it(tmp_path: Path) -> None:
    for number, parameters in enumerate(({}, {"search": "dfs"}, {"evaluate": "vote"}, {"generate": "sample", "answer": "last"})):
        assert await solved(tmp_path / str(number), "dry", UNTYPED if "answer" in parameters else SOP, **parameters)


# -- parameters

@pytest.mark.one_in(16)
async def test_every_parameter_changes_what_is_asked_or_answered(tmp_path: Path) -> None:
    """Each against a search that differs in nothing else."""
    changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "thought": ({}, {"thought": "a letter"}), "depth": ({}, {"depth": 1}), "search": ({}, {"search": "dfs"}),
        "breadth": ({}, {"breadth": 1}), "generate": ({}, {"generate": "sample"}), "thoughts": ({}, {"thoughts": 4}),
        "evaluate": ({}, {"evaluate": "vote"}), "samples": ({}, {"samples": 2}),
        "values": ({}, {"values": {"likely": 3, "sure": 2, "impossible": 0}}), "threshold": ({}, {"threshold": 3}),
        "expansions": ({"search": "dfs"}, {"search": "dfs", "expansions": 1}), "judge": ({}, {"judge": "judge"}),
        "temperature": ({}, {"temperature": 0.5}), "alone": ({}, {"alone": True}),
        "finished": ({}, {"finished": "path | last == 'c'"}),
        "answer": ({}, {"answer": "last"}), "prompts": ({}, {"prompts": {"value": "own.j2"}})}
    assert set(changes) == set(STRATEGIES["tree_of_thoughts"].model_fields)
    count = 0

    async def seen(given: dict[str, Any]) -> tuple[Any, dict[str, str], set[tuple[str, float | None]]]:
        nonlocal count
        count += 1
        model = Tree({**LETTERS, ("a",): ["a", "b", "c"]}, {("b",): ["sure"]}, votes=[("b",)] * 3)
        path = desk(tmp_path / str(count), {"depth": 2, "breadth": 2, "thoughts": 3, "samples": 3, **given})
        (path.parent / "own.j2").write_text("Judge {{ path | tojson }} ({{ words | join(' ') }}).")
        result = await run(path, riddle="x", model=model, workspace=None, sandbox="none")
        return result.outputs, model.asked, model.hot

    for parameter, (one, other) in changes.items():
        first, again, changed = await seen(one), await seen(one), await seen(other)
        assert first == again != changed, parameter


def test_parameters_are_checked(tmp_path: Path) -> None:
    for wrong, told in (({"breadth": 0}, "at least 1"), ({"search": "bsf"}, "did you mean `bfs`"), ({"samples": "3"}, "samples"),
                        ({"expansions": 5}, "bounds `search: dfs`"), ({"values": {"sure": 1}}, "at least two words"),
                        ({"values": {"yes": 1, "no": -1}}, "`no` is -1"),
                        ({"evaluate": "vote", "values": {"a": 1, "b": 2}}, "a vote counts 1"),
                        ({"judge": "jugde"}, "did you mean `judge`"), ({"bredth": 1}, "did you mean `breadth`"),
                        ({"prompts": {"propse": "x.j2"}}, "did you mean `propose`")):
        found = "\n".join(str(problem) for problem in check(desk(tmp_path, wrong)).problems)
        assert told in found, (wrong, found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("parameters", [
    {}, {"evaluate": "vote"}, {"generate": "sample"}, {"breadth": 1}, {"breadth": 3, "depth": 3},
    {"breadth": 3, "answer": "last"}, {"search": "dfs", "threshold": 2},
    {"search": "dfs", "expansions": 2, "threshold": 2}], ids=str)
async def test_the_bound_on_calls_is_what_the_worst_search_takes(tmp_path: Path, parameters: dict[str, Any]) -> None:
    """Every answer in a form is right at its second repair only, and of the full depth nothing is above the threshold."""
    class Worst(Tree):
        async def __call__(self, request: Any) -> Any:
            self.asked[request.key] = ""
            kind = (re.findall(r"\.(propose|sample|value|vote)", request.key) or ["answer"])[0]
            if kind == "sample":
                return request.key
            if not request.key.endswith("/repair.2"):
                return "not in form"
            return {"propose": {"thoughts": [f"{request.key} {number}" for number in range(2)]}, "vote": {"why": "", "best": 1},
                    "value": {"why": "", "value": "impossible" if ".d2." in request.key else "sure"},
                    "answer": {"answer": "x"}}[kind]

    model, given = Worst({}), {"depth": 2, "breadth": 2, "thoughts": 2, "samples": 2, **parameters}
    bounds = check(desk(tmp_path, given)).bounds
    await solved(tmp_path, model, **given)
    assert bounds is not None and len(model.asked) == bounds.calls


# -- stopped anywhere

@pytest.mark.one_in(3)
@pytest.mark.parametrize("parameters", [
    {"depth": 2, "breadth": 2, "samples": 2}, {"search": "dfs", "depth": 2, "threshold": 0.5, "samples": 2},
    {"depth": 2, "evaluate": "vote", "judge": "judge"}, {"depth": 2, "generate": "sample", "thoughts": 2, "breadth": 1}], ids=str)
async def test_stopped_at_any_call_it_goes_on_there(tmp_path: Path, parameters: dict[str, Any]) -> None:
    """The same answer and the same notes."""
    def model() -> Tree:
        return Tree(LETTERS, LEADS_ASTRAY, votes=[("a",), ("b",), ("a", "b")])

    runs = tmp_path / "runs"
    whole = await stopped_everywhere(desk(tmp_path, parameters), model, runs, riddle="x")
    assert whole.result.ok and len(whole.keys) > 5
    for number in whole.stops:
        assert noted(runs / f"stopped{number}", NAME) == noted(runs / "whole", NAME)


async def test_a_budget_that_ends_in_its_middle_is_gone_on_from(tmp_path: Path) -> None:
    path = desk(tmp_path, {"depth": 2, "breadth": 2, "samples": 2}, SOP + "    budget: {calls: 8}\n")
    first, second = astray(), astray()
    assert (await run(path, riddle="x", model=first, workspace=tmp_path, name="r", sandbox="none")).exit_status == 3
    assert len(first.asked) == 8
    result = await resume("r", model=second, workspace=tmp_path, budget={"calls": 100})
    assert result.ok and not set(first.asked) & set(second.asked)


# -- the paper's own data

@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")
def test_gpt_4s_log_is_searched_as_its_authors_did_and_breadth_pays() -> None:
    data = Path(DATA or "")
    log = papers.logged(data)
    assert all(papers.solves(record["steps"][0]["x"], way) == bool(info["r"])
               for record in log for way, info in zip(record["ys"], record["infos"], strict=True)), "the judges agree"
    selections, solved_, breadth = papers.rows(data)
    assert selections.here == "200 of 200"
    assert solved_.here == "35 of 50, the same that the log solves"
    assert breadth.here == "30 %; 70 %"
