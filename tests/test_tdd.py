"""`tdd.yaml` with a model that answers by a script: each test is red before there is code for it, by the test runner's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from adder import block
from sandboxes import needs_bubblewrap
from scripted import Scripted

from metaflow_agents import start
from metaflow_agents.models.port import ModelRequest

SOP = Path(__file__).parent.parent / "sops" / "tdd.yaml"
PLAN = {"package": "sums", "behaviours": [
    {"id": "adds", "text": "add(1, 2) gives 3"}, {"id": "adds_many", "text": "add(1, 2, 3) gives 6"},
    {"id": "adds_none", "text": "add() gives 0"}]}
CODE = "src/sums/__init__.py"


def asserting(name: str, what: str) -> str:
    return block(f"tests/test_{name}.py", f"from sums import add\n\n\ndef test_it():\n    assert {what}")


async def built(tmp_path: Path, code: list[str]) -> tuple[Any, Scripted]:
    model = Scripted({"plan_it": PLAN,
                      "write_test": [asserting("adds", "add(1, 2) == 3"), asserting("adds_many", "add(1, 2, 3) == 6"),
                                     asserting("adds_none", "add() == 0")],
                      "write_code": [block(CODE, f"def add(*numbers):\n    return {one}") if one else "" for one in code]})
    async with start(SOP, workspace=tmp_path / "w", model=model, inputs={"wish": "sums"}, sandbox="bubblewrap") as going:
        return await going.result(), model


async def test_it_is_gone_through_without_a_model(tmp_path: Path) -> None:
    """A dry run makes up what tests say before there is one."""
    async with start(SOP, workspace=tmp_path / "w", model="dry", inputs={"wish": "sums"}, sandbox="none") as going:
        result = await going.result()
    assert result.outcome in ("success", "failure") and result.outputs["outcome"]["behaviours"] > 0, result.reason


def seen(request: ModelRequest) -> str:
    return "\n".join(str(message["content"]) for message in request.messages)


@pytest.mark.one_in(16, always=False)
@needs_bubblewrap
async def test_a_behaviour_has_its_test_before_its_code(tmp_path: Path) -> None:
    """The second code is wrong and is written anew; the third behaviour is there already, and needs none."""
    result, model = await built(tmp_path, ["numbers[0] + numbers[1]", "numbers[0] * 9", "sum(numbers)"])
    assert result.ok and result.outputs["outcome"]["open"] == []
    assert model.steps == ["plan_it", "write_test", "write_code", "write_test", "write_code", "write_code", "write_test"]
    assert result.outputs["outcome"]["red_first"] == ["adds", "adds_many"]
    first, second, again = (seen(request) for request in (model.requests[2], model.requests[4], model.requests[5]))
    assert "add(1, 2) == 3" in first and "add(1, 2, 3) == 6" in second and "numbers[0] + numbers[1]" in second
    assert "assert add(1, 2) == 3" not in second and "18" not in second, "the test that is red, and the code"
    assert "numbers[0] * 9" in again
    assert sorted(result.outputs["tree"]) == [CODE, "tests/test_adds.py", "tests/test_adds_many.py", "tests/test_adds_none.py"]


@pytest.mark.one_in(12, always=False)
@needs_bubblewrap
async def test_code_that_stays_red_is_no_success_and_says_what_is_open(tmp_path: Path) -> None:
    result, model = await built(tmp_path, ["0"] * 24)
    assert not result.ok and result.outputs["outcome"] == {
        "green": False, "behaviours": 3, "red_first": ["adds"], "open": ["adds", "adds_many", "adds_none"]}
    assert model.steps.count("write_test") == 1 and model.steps.count("write_code") < 5, "it is stuck"
