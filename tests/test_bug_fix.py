# ruff: noqa: E501
"""`bug_fix.yaml` on planted defects, with a model that sees only its prompts and knows how the program should be."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sandboxes import LACKING

from benchmarks.bug_fix import Knows, mended, slips_of
from benchmarks.planted import Planted, methods, mutated, planted, without
from metaflow_agents import run

DATA = Path(os.environ.get("SOP_TEST_DATA", "../shared/data")) / "polyglot_python"
TASKS = sorted(folder.name for folder in DATA.iterdir()) if DATA.is_dir() else ["no data"]

PROGRAM = "def total(prices):\n    found = 0\n    for price in prices:\n        found = found + price\n    return found\n"
TESTS = ("import unittest\n\nfrom till import total\n\n\nclass TillTest(unittest.TestCase):\n    def test_nothing(self):\n"
         "        self.assertEqual(total([]), 0)\n\n    def test_two(self):\n        self.assertEqual(total([1, 2]), 3)\n")
TILL = Planted("till", "till.py", "till_test.py", PROGRAM.replace("found + price", "found - price"), PROGRAM, without(TESTS, {"test_two"}),
               without(TESTS, {"test_nothing"}), TESTS, "AssertionError: -3 != 3")
SANDBOX = "none" if LACKING else None


def test_defects_are_planted_one_at_a_time() -> None:
    assert sorted(mutated("é = a + 1 if b == c and d else 2\n")) == sorted([
        "é = a + 1 if b == c or d else 2\n", "é = a - 1 if b == c and d else 2\n", "é = a + 1 if b == c and d else 3\n",
        "é = a + 2 if b == c and d else 2\n", "é = a + 1 if b != c and d else 2\n"])
    assert methods(TESTS) == ["test_nothing", "test_two"] and methods(without(TESTS, {"test_two"})) == ["test_nothing"]


@pytest.mark.slow
@pytest.mark.parametrize("slips", [("test", "fix"), pytest.param((), marks=pytest.mark.one_in(48, always=False))])
async def test_a_defect_is_shown_by_a_test_and_mended(slips: tuple[str, ...]) -> None:
    found = await mended(TILL, [PROGRAM], slips=slips, sandbox=SANDBOX)
    assert found.good, found
    assert found.calls == 3 + len(slips), "a test that passes goes back to its author, a fix that mends nothing goes round again"


@pytest.mark.one_in(16, always=False)
async def test_a_file_of_tests_that_can_not_be_collected_hides_no_other() -> None:
    found = await mended(replace(TILL, visible="import not_there_at_all\n"), [PROGRAM], sandbox=SANDBOX)
    assert found.good, found


async def test_made_up_answers_walk_to_the_end(tmp_path: Path) -> None:
    """`--model dry` diagnoses files that are not there."""
    (tmp_path / "calc.py").write_text("x = 1\n")
    result = await run("bug_fix", repo=tmp_path, issue="it is slow", model="dry", workspace=None)
    assert result.outcome == "failure" and "these tests fail" in result["outcome"]["why"], result.reason


@pytest.mark.one_in(16)
async def test_what_is_never_mended_ends_without_success(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(Knows):
        def __call__(self, request: object) -> object:
            self._slips.add("fix")
            return super().__call__(request)

    monkeypatch.setattr("benchmarks.bug_fix.Knows", Stubborn)
    found = await mended(TILL, [PROGRAM], sandbox=SANDBOX)
    assert not found.fixed and found.red == 1 and not found.hidden and found.why.startswith("these tests fail: ")


@pytest.mark.slow
@pytest.mark.skipif(TASKS == ["no data"], reason="SOP_TEST_DATA names no folder with `polyglot_python`")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.one_in(72, always=False)) for name in TASKS])
async def test_a_task_of_the_benchmark(name: str) -> None:
    example = (DATA / name / "meta/example.py").read_text(encoding="utf-8")
    found = await mended(planted(DATA / name), [example], slips=slips_of(TASKS.index(name)), sandbox=SANDBOX)
    assert found.good and 0 < found.place <= 5, found
