"""API-Bank as a SOP: short, checked, passes its tests, fails them without its mechanism; its APIs keep what they changed."""

from __future__ import annotations

import ast
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from metaflow_agents import Reply, ToolCall, check, run
from metaflow_agents.api.sop_test import try_out
from metaflow_agents.models.port import ModelRequest

FOLDER = Path(__file__).parent.parent / "examples" / "classics" / "api_bank"
SOP = FOLDER / "api_bank.yaml"
DATA = os.environ.get("SOP_TEST_DATA")


def test_it_is_short_and_checks() -> None:
    assert len(SOP.read_text().splitlines()) < 120
    assert list(check(SOP).problems) == []


def test_every_api_is_a_tool_and_every_tool_an_api() -> None:
    """Under the name by which it is searched, logged and called."""
    named = {f"{file.stem}:{node.name}": decorator.args[0].value  # type: ignore[attr-defined]
             for file in FOLDER.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))
             if isinstance(node, ast.FunctionDef)
             for decorator in node.decorator_list if ast.unparse(decorator).startswith("api(")}
    tools = {name: spec["python"] for name, spec in yaml.safe_load(SOP.read_text())["tools"].items()}
    assert len(tools) == 53 and {python: name for name, python in tools.items()} == named
    caller = yaml.safe_load((FOLDER / "roles" / "caller.yaml").read_text())["tools"]
    assert sorted([*caller, "ToolSearcher"]) == sorted(tools)


@pytest.mark.one_in(4)
async def test_it_passes_its_tests() -> None:
    verdicts = [verdict async for verdict in try_out(SOP, sandbox="none")]
    assert len(verdicts) == 5 and [(verdict.case, verdict.why) for verdict in verdicts if not verdict.ok] == []


@pytest.mark.one_in(4)
async def test_it_is_the_search_that_does_it(tmp_path: Path) -> None:
    """Without the step that searches, the same model calls nothing."""
    folder = Path(shutil.copytree(FOLDER, tmp_path / "api_bank"))
    data = yaml.safe_load(SOP.read_text())
    data["steps"]["find"]["when"] = "false"
    (folder / SOP.name).write_text(json.dumps(data))
    verdicts = [verdict async for verdict in try_out(folder / SOP.name, ["found_then_called", "planned"], sandbox="none")]
    assert [verdict.ok for verdict in verdicts] == [False, False]


class Caller:
    """Decides that a call is needed, and makes these; `enough` is what the judge says each time."""

    def __init__(self, *calls: tuple[str, dict[str, Any]], enough: bool = True) -> None:
        self.calls, self.enough, self.told = calls, enough, list[str]()
        self.offered: list[str] = []

    def __call__(self, request: ModelRequest) -> Any:
        if request.step != "act":
            return {"decide": {"call": True, "why": ""}, "judge": {"ok": self.enough, "why": ""}}.get(request.step, "done")
        self.offered = [str(tool["name"]) for tool in request.tools]
        self.told = [str(one["content"]) for one in request.messages if one["role"] == "tool"]
        name, given = self.calls[len(self.told)] if len(self.told) < len(self.calls) else ("finish", {"answer": "done"})
        return Reply("", calls=(ToolCall("", name, given),))


async def called(caller: Caller, *apis: str) -> dict[str, Any]:
    result = await run(SOP, model=caller, workspace=None, inputs={"dialogue": "User: do it", "level": "call", "apis": list(apis)})
    assert result.ok, result.reason
    return dict(result.artifacts)


async def test_what_an_api_changes_the_next_one_sees() -> None:
    token = {"token": "t0k3n-of-ann"}
    early = {**token, "time": "2024-05-03 06:00:00"}
    caller = Caller(("AddAlarm", early), ("QueryAlarm", early), ("AddAlarm", {**token, "time": "soon"}),
                    ("QueryBalance", {"token": "another"}))
    made = await called(caller, "AddAlarm", "QueryAlarm")
    assert caller.offered == ["AddAlarm", "QueryAlarm", "finish"]           # what is given at this level, and nothing else
    outputs = [json.loads(text) for text in caller.told[:3]]
    assert outputs[1]["output"] == {"time": "2024-05-03 06:00:00", "username": "ann"}
    assert outputs[2]["output"] is None and "'soon' does not match format" in outputs[2]["exception"]
    assert "there is no tool `QueryBalance`" in caller.told[3]
    assert len(json.loads(made["records"]["records/Alarm.json"])) == 2
    assert [json.loads(line)["api_name"] for line in made["calls"].splitlines()] == ["AddAlarm", "QueryAlarm", "AddAlarm"]


async def test_what_is_not_good_enough_is_called_once_more() -> None:
    caller = Caller(("GetToday", {}), enough=False)
    made = await called(caller, "GetToday")
    assert len(made["calls"].splitlines()) == 2 and made["enough"] == {"ok": False, "why": ""}


@pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA names no folder with the public data")
@pytest.mark.slow
async def test_gold_calls_give_what_was_recorded() -> None:
    """Of some dialogues; all of them are rows of `python -m benchmarks.papers api_bank`."""
    from benchmarks.papers import api_bank

    data = Path(str(DATA))
    some = [one for one in api_bank.dialogues(data) if one.calls][::25]
    found = api_bank.replayed(data, some)
    assert found[""] >= 0.86 * found.total() > 0, found
