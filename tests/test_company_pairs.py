"""The comparison of two products without their origin: what is laid out, what a verdict says, and what is kept of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import write

from benchmarks.company_pairs import Verdict, lay, main, table, take
from metaflow_agents import run

SOP = """
sop: desk
roles: {author: {profile: You write.}}
artifacts: {product: {files: ["**"]}}
steps: {write: {role: author, makes: product, task: "Write."}}
"""
ANSWER = "=== file: README.md ===\n# one\n=== end ===\n=== file: src/a.py ===\nA = 1\n=== end ===\n"
SAID: dict[str, Any] = {
    "kept": "first", "certainty": 80, "minutes_to_merge": {"first": 20, "second": 60}, "noticed": {"first": 9, "second": 4},
    "starts": {"first": True, "second": True}, "decisive": ["the first reads the file"], 
    "faults": {"first": [], "second": ["a sum"]}}


@pytest.fixture
async def made(tmp_path: Path) -> Path:
    async def author(request: Any) -> str:
        return "=== file: README.md ===\n# company\n=== end ===\n=== file: docs/brief.md ===\nhow it was made\n=== end ===\n"

    assert (await run(write(tmp_path, SOP), model=author, workspace=tmp_path / "w", name="one")).ok
    return tmp_path / "w/one"


@pytest.mark.parametrize("seed", range(4))
def test_two_directories_do_not_tell_where_they_come_from(made: Path, tmp_path: Path, seed: int) -> None:
    lay(tmp_path / "pair", "adder", "Add numbers.", made, ANSWER, seed)
    desk = tmp_path / "pair/desk"
    which = json.loads((tmp_path / "pair/which.json").read_text())
    other = "second" if which["company"] == "first" else "first"
    assert {path.name for path in desk.iterdir()} == {"request.md", "first", "second"}
    assert {path.name for path in (desk / which["company"]).iterdir()} == {"README.md"}, "neither git nor how it was made"
    assert (desk / other / "src/a.py").read_text() == "A = 1\n"
    request = (desk / "request.md").read_text()
    assert "Add numbers." in request and "company" not in request and "prompt" not in request
    assert which["tokens"]["company"] > 0 < which["tokens"]["one"]
    Verdict.model_validate(SAID)


def test_the_order_is_left_to_chance(made: Path, tmp_path: Path) -> None:
    for seed in range(20):
        lay(tmp_path / str(seed), "adder", "Add.", made, ANSWER, seed)
    assert {json.loads((tmp_path / str(seed) / "which.json").read_text())["company"] for seed in range(20)} == {"first", "second"}


def test_a_verdict_is_kept_by_origin_and_counted(made: Path, tmp_path: Path) -> None:
    lay(tmp_path / "pair", "adder", "Add.", made, ANSWER, 1)
    which = json.loads((tmp_path / "pair/which.json").read_text())["company"]
    (tmp_path / "pair/desk/verdict.json").write_text(json.dumps({**SAID, "kept": which}))
    told = take(tmp_path / "pair", "a reviewer", tmp_path / "kept")
    assert told["kept"] == "company" and told["minutes_to_merge"]["company"] == SAID["minutes_to_merge"][which]
    assert take(tmp_path / "pair", "another", tmp_path / "kept")["by"] == "another", "each verdict counts for itself"
    assert "the company's is kept 2 times of 2" in table(tmp_path / "kept")


@pytest.mark.parametrize("wrong", [{"kept": "both"}, {"certainty": 10}, {"decisive": []}, {"more": 1}])
def test_a_verdict_that_is_none_is_refused(made: Path, tmp_path: Path, wrong: dict[str, Any],
                                           capsys: pytest.CaptureFixture[str]) -> None:
    lay(tmp_path / "pair", "adder", "Add.", made, ANSWER, 1)
    (tmp_path / "pair/desk/verdict.json").write_text(json.dumps({**SAID, **wrong}))
    assert main(["take", str(tmp_path / "pair"), "--by", "x"]) == 1
    assert "company_pairs: " in capsys.readouterr().err


def test_an_answer_that_is_not_in_form_or_leaves_its_folder_is_refused(made: Path, tmp_path: Path) -> None:
    for number, (answer, told) in enumerate((("=== file: a", "not in form"),
                                             ("=== file: ../../a ===\nx\n=== end ===\n", "leaves its folder"))):
        with pytest.raises(ValueError, match=told):
            lay(tmp_path / str(number), "adder", "Add.", made, answer, 1)
