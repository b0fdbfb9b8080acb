"""What a judge of red tests is shown: the red ones with all that they may need, the modules that they are about, in bounds."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tiers import examples

from metaflow_agents.kits.company import red_tests
from metaflow_agents.kits.company.red import MODULES, SAID, SOURCE

TEXT = '''\
import pytest

LIMIT = 50


def helper():
    return LIMIT


def test_passes():
    assert True


@pytest.mark.parametrize("one", [1, 2])
def test_red(one):
    assert helper() == one


class TestMore:
    value = 3

    def test_fine(self):
        assert self.value


    async def test_bad(self):
        assert not self.value
'''
PLAN = {"files": [{"path": "tests/test_a.py", "modules": ["src/a.py", "src/b.py"]},
                  {"path": "tests/test_b.py", "modules": ["src/a.py"]}]}
TREE = {"tests/test_a.py": TEXT, "tests/test_b.py": "def test_it():\n    pass\n", "src/a.py": "A = 1\n", "src/b.py": "B = 1\n",
        "src/c.py": "C = 1\n"}


def failing(*ids: str, **fields: str) -> dict[str, Any]:
    return {"failures": [{"id": one, "exception": "AssertionError", "message": "assert 1", "place": "src/c.py:1", **fields}
                         for one in ids]}


def test_tests_that_pass_are_left_out_and_all_else_stays() -> None:
    told = red_tests(failing("tests/test_a.py::test_red[1]", "tests/test_a.py::test_red[2]"), TREE, PLAN)
    (file,) = told["files"]
    assert file["source"].startswith("import pytest\n\nLIMIT = 50\n\n\ndef helper():\n    return LIMIT\n\n\n"
                                     '[… tests that pass …]\n\n\n@pytest.mark.parametrize("one", [1, 2])\ndef test_red(one):\n')
    assert "test_passes" not in file["source"] and "test_fine" not in file["source"] and "value = 3" in file["source"]
    assert [one["said"] for one in file["tests"]] == ["AssertionError: assert 1\nat src/c.py:1"] * 2
    assert told["modules"] == ["src/c.py", "src/a.py", "src/b.py"], "what a failure names comes first, each once"


def test_a_test_of_a_class_is_known_by_both_names() -> None:
    (file,) = red_tests(failing("tests/test_a.py::TestMore::test_bad"), TREE, PLAN)["files"]
    assert "async def test_bad" in file["source"] and "test_fine" not in file["source"] and "test_red" not in file["source"]


@pytest.mark.parametrize(("ids", "wrong", "tree", "shown"), [
    (["tests/test_b.py::x"], ["tests/test_a.py"], TREE, False),
    (["tests/test_b.py::x"], [], TREE, False),
    (["tests/test_b.py::x", "tests/test_b.py::z"], [], TREE, True),                     # one that nobody has judged
    (["tests/test_b.py::x"], ["tests/test_b.py"], TREE, True),                          # its file was corrected, and it stays red
    (["tests/test_b.py::x"], [], TREE | {"tests/test_a.py": "now = 1"}, False),         # other tests were corrected
    (["tests/test_b.py::x"], [], TREE | {"src/a.py": "now = 1"}, True)])                # the program is another one
def test_what_was_judged_is_not_judged_again(ids: list[str], wrong: list[str], tree: dict[str, str], shown: bool) -> None:
    before = red_tests(failing("tests/test_a.py::test_red", "tests/test_b.py::x", "tests/test_b.py::y"), TREE, PLAN)
    faults = {"tests": [{"path": path} for path in wrong], "program": []}
    told = red_tests(failing(*ids), tree, PLAN, faults, before)
    assert bool(told["files"]) is shown and told["ids"] == ids
    assert red_tests(failing(*ids), tree, PLAN, None, None)["files"], "nothing was judged yet"


def test_a_file_that_could_not_be_read_stands_there_whole() -> None:
    broken = TREE | {"tests/test_a.py": "def test_(:\n"}
    assert red_tests(failing("tests/test_a.py"), broken, PLAN)["files"][0]["source"] == "def test_(:"
    assert red_tests(failing("tests/test_a.py"), TREE, PLAN)["files"][0]["source"] == TEXT.strip(), "an import of it fails, say"
    found = red_tests(failing("", place=""), TREE, PLAN)
    assert [file["path"] for file in found["files"]] == ["", "tests/test_a.py", "tests/test_b.py"], "what ran them failed"
    found = red_tests({"failures": []}, TREE, PLAN)
    assert [file["path"] for file in found["files"]] == ["tests/test_a.py", "tests/test_b.py"], "no test ran at all"
    assert found["files"][0]["source"] == TEXT.strip() and found["modules"] == ["src/a.py", "src/b.py"]


SCRIPT = """\
import test from "node:test";

const helper = () => 1;

test("passes", () => {
  one();
});
test('short', () => { two(); });

test("red: of (its) kind", async () => {
  three();
});

for (const [name, value] of [["a", 1]]) {
  test(`of a table ${name}`, () => {
    four();
  });
}
"""


def test_tests_of_a_script_that_pass_are_left_out_too() -> None:
    tree = TREE | {"tests/a.test.js": SCRIPT}
    (file,) = red_tests(failing("tests/a.test.js::red: of (its) kind"), tree, PLAN)["files"]
    assert file["source"] == SCRIPT.replace('test("passes", () => {\n  one();\n});\ntest(\'short\', () => { two(); });',
                                            "[… tests that pass …]").rstrip("\n")
    (file,) = red_tests(failing("tests/a.test.js::of a table a"), tree, PLAN)["files"]
    assert "four();" in file["source"] and "three();" not in file["source"]


def test_of_a_long_file_the_red_tests_stay() -> None:
    long = "\n".join(f"const filler_{number} = {number};" for number in range(3_000))
    tree = TREE | {"tests/a.test.js": SCRIPT.replace("const helper", f"{long}\nconst helper")}
    (file,) = red_tests(failing("tests/a.test.js::red: of (its) kind"), tree, PLAN)["files"]
    assert 'test("red: of (its) kind", async () => {\n  three();\n});' in file["source"] and "characters …" in file["source"]
    assert len(file["source"]) < SOURCE * 1.1 and "one();" not in file["source"]


def test_what_is_shown_is_bounded_and_says_what_is_missing() -> None:
    many = [f"tests/test_a.py::test_{number}" for number in range(30)]
    big = TREE | {"src/a.py": "# a\n" * 4_000, "src/b.py": "# b\n" * 4_000}
    big["tests/test_a.py"] = "".join(f"def test_{number}():\n" + "    assert 1\n" * 200 for number in range(30))
    told = red_tests(failing(*many, message="x" * 9_000, place=""), big, PLAN)
    (file,) = told["files"]
    assert sum(len(one["said"]) for one in file["tests"]) < SAID * 1.6 and "characters …" in file["tests"][0]["said"]
    assert len(file["source"]) < SOURCE * 1.1 and "characters …" in file["source"]
    assert told["modules"] == ["src/a.py"] and told["others"] == ["src/b.py"] and len(big["src/a.py"]) > MODULES


PARTS = ["def test_{}(): pass", "def test_{}():\n    assert 1\n\n    assert 2", "VALUE_{} = 1", "# {}", ""]


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.sets(st.integers(0, 11)))
@settings(max_examples=examples(60))
def test_each_line_stands_there_or_is_of_a_test_that_passes(parts: list[str], red: set[int]) -> None:
    text = "\n\n".join(part.format(number) for number, part in enumerate(parts)) + "\n"
    names = [number for number, part in enumerate(parts) if part.startswith("def") and number in red]
    assume(names)
    (file,) = red_tests(failing(*(f"tests/test_a.py::test_{number}" for number in names)), TREE | {"tests/test_a.py": text},
                        PLAN)["files"]
    kept = ast.parse(file["source"].replace("[… tests that pass …]", ""))
    assert [node.name for node in kept.body if isinstance(node, ast.FunctionDef)] == [f"test_{number}" for number in names]
    for number, part in enumerate(parts):
        if part and not part.startswith("def"):
            assert part.format(number) in file["source"]
