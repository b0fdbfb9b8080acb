"""Gorilla as a SOP: documents are fetched and followed, calls are checked by their syntax trees."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaflow_agents import check, run
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.modules import load_function

FOLDER = Path(__file__).parent.parent / "examples" / "classics" / "gorilla"
SOP = FOLDER / "gorilla.yaml"
QUESTION = "What is the area of a triangle with a base of 10 and a height of 5?"


def function(name: str, folder: Path = FOLDER) -> Any:
    return load_function(name, [folder])


def test_it_is_short_and_checks() -> None:
    assert len(SOP.read_text().splitlines()) < 120
    assert list(check(SOP).problems) == []


@pytest.mark.one_in(4)
async def test_it_passes_its_tests() -> None:
    verdicts = [verdict async for verdict in try_out(SOP, sandbox="none")]
    assert len(verdicts) == 5 and [(verdict.case, verdict.why) for verdict in verdicts if not verdict.ok] == []


@pytest.mark.one_in(4)
async def test_it_is_the_documents_and_the_check_that_do_it(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "gorilla"))
    data = yaml.safe_load(SOP.read_text())
    data["steps"]["fetch"]["args"]["top"] = 0
    del data["steps"]["write"]["check"]
    (folder / SOP.name).write_text(json.dumps(data))
    cases = ["by_its_document", "by_its_model_card", "a_wrong_argument_is_mended_by_what_the_check_says"]
    verdicts = [verdict async for verdict in try_out(folder / SOP.name, cases, sandbox="none")]
    assert [verdict.ok for verdict in verdicts] == [False, False, False]


async def test_a_document_that_changes_changes_the_next_call_of_the_same_run(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "gorilla"))
    (folder / "twice.yaml").write_text("""
        sop: twice
        inputs: {questions: [string]}
        artifacts: {codes: {each: string}}
        steps:
          each: {sop: gorilla.yaml, needs: [questions], foreach: {in: questions, as: q, parallel: 1}, makes: codes, output: code,
                 inputs: {question: "q ~ '?'"}}
    """)
    writes = function("desk:programmer", folder)

    def model(request: ModelRequest) -> Any:
        answer = writes(request)
        document = folder / "documents" / "triangle.json"
        document.write_text(document.read_text().replace("triangle_area", "area_of_triangle").replace('"base"', '"base_line"'))
        return answer

    result = await run(folder / "twice.yaml", model=model, workspace=None, questions=[QUESTION, QUESTION.rstrip("?")])
    assert list(result["codes"].values()) == ["geometry.triangle_area(base=10, height=5)",
                                              "geometry.area_of_triangle(base_line=10, height=5)"]


DOCUMENT = {"file": "a.json", "call": "a.f(model='m/1')", "parameters": {"x": {}, "y": {}}, "required": ["x"], "description": ""}


@pytest.mark.parametrize(("code", "told"), [
    ("a.f(1, model='m/1')", []),
    ("out = a.f(x=1, y=2, model='m/1')", []),
    ("a.f(model='m/1')", ["`x` is missing in the call of `a.f`"]),
    ("a.f(x=1, z=2, model='m/1')", ["`z` is no parameter of `a.f`: there is: x, y"]),
    ("a.f(1, 2, 3, model='m/1')", ["`a.f` takes 2 arguments, not 3"]),
    ("a.f(x=1, model='m/2')", ["`a.f(x=1, model='m/2')` calls what none of the documents describes; they describe: "
                               "`a.f(model='m/1')`"]),
    ("b.f(x=1, model='m/1')", ["`b.f(x=1, model='m/1')` calls what none of the documents describes; they describe: "
                               "`a.f(model='m/1')`"]),
    ("a.f(", ["it is no Python: '(' was never closed (<unknown>, line 1)"]),
    ("a.f", ["it calls nothing"]),
])
def test_a_call_is_right_where_a_documented_one_is_a_sub_tree(code: str, told: list[str]) -> None:
    assert function("syntax:faults")(code, [DOCUMENT]) == told


def test_the_index_follows_its_folder(tmp_path: Path) -> None:
    def write(name: str, call: str) -> None:
        (tmp_path / name).write_text(json.dumps({"call": call, "description": "opens the door"}))

    nearest = function("library:nearest")
    write("a.json", "door.open()")
    assert [one["call"] for one in nearest(str(tmp_path), "open a door", 3)] == ["door.open()"]
    write("b.json", "door.open_wide()")
    write("a.json", "door.unlock()")
    assert sorted(one["call"] for one in nearest(str(tmp_path), "open a door", 3)) == ["door.open_wide()", "door.unlock()"]
    (tmp_path / "b.json").unlink()
    assert [one["call"] for one in nearest(str(tmp_path), "open a door", 3)] == ["door.unlock()"]
    assert nearest(str(tmp_path), "open a door", 0) == []
    (tmp_path / "c.json").write_text('{"call": "door"}')
    with pytest.raises(ValueError, match=r"c\.json: `call` is 'door', and no call"):
        nearest(str(tmp_path), "open a door", 3)


def test_a_document_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('{"call": ', encoding="utf-8")
    with pytest.raises(ValueError, match=r"half\.json is no JSON document"):
        function("library:nearest")(str(tmp_path), "anything", 3)
