# ruff: noqa: E501  (SOPs stand here as people write them)
"""Routing: chosen against descriptions, arguments checked, the expert works on its own; the confusion matrix on public data."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, noted, write
from stopping import stopped_everywhere

from metaflow_agents import check, run
from metaflow_agents.schema.caps import ANSWER_REPAIRS, TOOL_TURNS

DATA = os.environ.get("SOP_TEST_DATA")
DESK = """
    sop: desk
    inputs: {question: string}
    roles:
      clerk: {profile: You hand tasks on.}
      adder: {profile: You add numbers up., goal: The right sum}
      poet: {profile: You write verse., tools: [read], model: verse}
      helper: {profile: You do what is left.}
    models: {verse: "python:verses.py:poem"}
    artifacts: {answer: {schema: {by: string, text: string}}}
    steps:
      solve:
        role: clerk
        needs: [question]
        task: "Task: {{ question }}"
        makes: answer
        strategy:
          route:
            experts:
              adder: {takes: {numbers: [integer]}}
              poet: {about: for verse about flowers}
            fallback: helper
"""
POEM = """
def poem(request):
    return {"by": request.role, "text": "a rose"}
"""


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower()))


def clerk(request: Any) -> Any:
    """Computes from its prompt: the expert with most words in common with the task; the numbers that stand in it."""
    said = "\n".join(message["content"] for message in request.messages)
    task = re.search(r"Task: (.*)", said)[1]                            # type: ignore[index]
    if request.key.endswith("/choice"):
        about = dict(re.findall(r'<expert name="(\w+)">\n(.*?)</expert>', said, re.DOTALL))
        best = max(about, key=lambda name: len(words(about[name]) & words(task)))
        fits = bool(words(about[best]) & words(task))
        return {"expert": best if fits else "helper", "why": "the words"}
    if "/arguments" in request.key:
        found = [int(number) for number in re.findall(r"\d+", task)]
        return {"numbers": found} if found else "there are none"
    given = re.search(r"<arguments>(.*?)</arguments>", said, re.DOTALL)
    text = str(sum(json.loads(given[1])["numbers"])) if given else "done"
    return {"by": request.role, "text": text}


def desk(folder: Path, text: str = DESK) -> Path:
    return write(folder, text, verses_py=POEM)


async def answered(folder: Path, question: str, text: str = DESK, model: Any = clerk) -> tuple[dict[str, str], Scripted]:
    scripted = Scripted(solve=model)
    result = await run(desk(folder, text), question=question, models={"default": scripted}, workspace=folder, sandbox="none")
    assert result.ok, result.reason
    return result["answer"], scripted


async def test_the_one_whose_description_fits_does_it_with_its_arguments(tmp_path: Path) -> None:
    found, model = await answered(tmp_path, "what numbers add up: 3 and 4")
    assert found == {"by": "adder", "text": "7"}
    assert model.keys == ["solve@1~0/choice", "solve@1~0/arguments", "solve@1~0/expert.adder/turn.0"]
    choice = model.last_said("solve@1~0/choice")
    assert "You add numbers up. The right sum" in choice and "for verse about flowers" in choice and "You write verse" not in choice
    assert "Tools: read" in choice and '"numbers"' in choice
    assert "You add numbers up." in model.said("solve@1~0/expert.adder/turn.0"), "it works as itself"


async def test_an_expert_has_a_model_and_tools_of_its_own(tmp_path: Path) -> None:
    found, model = await answered(tmp_path, "a verse about flowers")
    assert found == {"by": "poet", "text": "a rose"} and model.keys == ["solve@1~0/choice"]


async def test_what_is_for_none_of_them_is_for_the_fallback(tmp_path: Path) -> None:
    found, model = await answered(tmp_path, "shoes")
    assert found == {"by": "helper", "text": "done"} and model.keys[-1] == "solve@1~0/expert.helper/turn.0"


async def test_arguments_are_repaired_and_what_is_not_given_goes_to_the_fallback_by_name(tmp_path: Path) -> None:
    found, model = await answered(tmp_path, "add numbers up")
    assert found["by"] == "helper"
    assert [key for key in model.keys if "arguments" in key] == [
        "solve@1~0/arguments", "solve@1~0/arguments/repair.1", "solve@1~0/arguments/repair.2"]
    (note,) = noted(tmp_path, "desk-1", "/route")
    assert (note["chosen"], note["given_to"], note["arguments"]) == ("adder", "helper", None) and "JSON" in note["not_given"]


async def test_without_a_fallback_what_an_expert_takes_has_to_be_there(tmp_path: Path) -> None:
    path = desk(tmp_path, DESK.replace("            fallback: helper\n", "").replace("      helper: {profile: You do what is left.}\n", ""))
    assert [problem.code for problem in check(path).problems] == []
    model = Scripted(solve=clerk)
    result = await run(path, question="add numbers up", models={"default": model}, workspace=None, sandbox="none")
    assert not result.ok and "JSON" in str(result.reason)
    assert not any("expert" in key for key in model.keys)
    last = model.last_said("solve@1~0/choice")
    assert "Where none of them fits" not in last and "helper" not in last


async def test_what_is_wrong_with_the_answer_goes_back_to_the_expert(tmp_path: Path) -> None:
    """Repairs and checks are the chosen one's: by its model, with its own words."""
    def solve(request: Any) -> Any:
        if "repair" in request.key or "/check." in request.key:
            return {"by": request.role, "text": "8" if "check" in request.key else "7"}
        return "no json" if "/expert." in request.key else clerk(request)
    text = DESK.replace("        makes: answer\n", '        makes: answer\n        check: {call: "verses:even"}\n')
    path = write(tmp_path, text, verses_py=POEM + "\ndef even(answer):\n    return int(answer['text']) % 2 == 0 or 'odd'\n")
    model = Scripted(solve=solve)
    result = await run(path, question="add numbers up: 3", models={"default": model}, workspace=None, sandbox="none")
    assert result.ok and result["answer"] == {"by": "adder", "text": "8"}, result.reason
    assert model.keys[-2:] == ["solve@1~0/expert.adder/turn.0/repair.1", "solve@1~0/expert.adder/check.1"]
    assert "odd" in model.last_said("solve@1~0/expert.adder/check.1")


async def test_an_expert_writes_files_with_its_tools_and_they_are_the_answer(tmp_path: Path) -> None:
    from metaflow_agents.models.port import Reply, ToolCall

    text = """
        sop: files
        inputs: {question: string}
        roles: {clerk: {profile: You hand on.}, coder: {profile: You write files., tools: [write]}, other: {profile: You rest.}}
        artifacts: {pages: {files: "*.txt"}}
        steps:
          solve: {role: clerk, needs: [question], makes: pages, strategy: {route: {experts: {coder: {}, other: {}}}}}
    """

    def solve(request: Any) -> Any:
        if request.key.endswith("/choice"):
            return {"expert": "coder", "why": "files"}
        if request.key.endswith("/turn.0"):
            return Reply("", calls=(ToolCall("1", "write", {"path": "a.txt", "text": "one"}),))
        return "written"
    model = Scripted(solve=solve)
    result = await run(write(tmp_path, text), question="x", model=model, workspace=None, sandbox="none")
    assert result.ok, result.reason
    assert dict(result["pages"]) == {"a.txt": "one"}
    assert model.requests[0].tools == () and [tool["name"] for tool in model.requests[1].tools] == ["write"]


def bound(path: Path) -> int | None:
    """The most calls of a run."""
    found = check(path).bounds
    return None if found is None else found.calls


async def test_a_dry_walk_and_its_bound(tmp_path: Path) -> None:
    path = desk(tmp_path)
    result = await run(path, question="x", model="dry", workspace=None)
    assert result.ok and result.calls == 3
    turns = 1 + TOOL_TURNS                      # the poet has a tool, so that any answer may take turns
    assert bound(path) == 3 + 3 + turns + ANSWER_REPAIRS * turns
    plain = DESK.replace(", tools: [read]", "")
    assert bound(desk(tmp_path, plain)) == 3 + 3 + 1 + 2
    assert bound(desk(tmp_path, plain.replace("{takes: {numbers: [integer]}}", "{}"))) == 3 + 1 + 2


@pytest.mark.parametrize(("old", "new", "told"), [
    ("adder: {takes", "ader: {takes", "there is no role `ader`"),
    ("fallback: helper", "fallback: hepler", "did you mean `helper`"),
    ("{numbers: [integer]}", "{numbers: [intger]}", "integer"),
    ("{numbers: [integer]}", "{items: {type: string}}", "name its arguments"),
    ("poet: {about: for verse about flowers}", "poet: {abut: x}", "did you mean `about`"),
    ("fallback: helper", "prompts: {choos: x.j2}", "did you mean `choose`"),
])
def test_parameters_are_checked(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in DESK
    problems = check(desk(tmp_path, DESK.replace(old, new))).problems
    assert told in "\n".join(map(str, problems)), problems
    assert len([problem for problem in problems if problem.code != "unused-role" and "`x.j2`" not in problem.message]) == 1


def test_one_expert_alone_is_no_choice(tmp_path: Path) -> None:
    text = DESK.replace("              poet: {about: for verse about flowers}\n            fallback: helper\n", "")
    assert "nothing to choose" in "\n".join(map(str, check(desk(tmp_path, text)).problems))


def test_roles_that_only_a_strategy_names_are_used_and_their_models_are_looked_up(tmp_path: Path) -> None:
    assert check(desk(tmp_path)).problems == ()


async def test_stopped_at_each_call_it_comes_to_the_same(tmp_path: Path) -> None:
    text = DESK.replace(", model: verse", "").replace('    models: {verse: "python:verses.py:poem"}\n', "").replace(", tools: [read]", "")
    given = {"question": "add numbers up: 3 and 4"}
    whole = await stopped_everywhere(desk(tmp_path, text), lambda: clerk, tmp_path / "runs", inputs=given)
    assert whole.result.ok and len(whole.keys) == 3
