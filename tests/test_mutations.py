"""The list of mutations is whole: each applies to the source of today and names tests that exist; and its runner tells the truth.

`make mutations` carries them out; that takes minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutations.listed import HERE, ROOT, Mutation, is_fast, read
from tiers import table

MUTATIONS = read()


def test_what_each_mutation_replaces_stands_there_once() -> None:
    """All of them, each time: whoever changes a line sees which mutation was about it."""
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in {mutation.file for mutation in MUTATIONS}}
    assert [mutation.name for mutation in MUTATIONS if texts[mutation.file].count(mutation.replace) != 1] == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_applies_and_names_tests_of_the_default_tier(mutation: Mutation) -> None:
    assert mutation.file.startswith(("metaflow_agents/", "sops/", "examples/classics/"))
    assert mutation.file.endswith((".py", ".lua", ".yaml", ".j2", ".sh", ".js"))
    mutation.applied((ROOT / mutation.file).read_text(encoding="utf-8"))
    assert [test for test in mutation.caught_by if not is_fast(ROOT, test)] == [], "no tests of the default tier"


def test_there_are_many_and_each_has_its_name() -> None:
    assert len(MUTATIONS) >= 40
    assert [name for name, times in Counter(mutation.name for mutation in MUTATIONS).items() if times > 1] == []


@pytest.mark.parametrize(("key", "test"), [("base", "tests/test_web_security.py::test_what_comes_of_a_request"),
                                           ("text", "tests/test_web_hostile.py::test_a_text_has_no_effect")])
def test_each_row_of_the_table_of_the_web_ui_is_turned_red_by_one(key: str, test: str) -> None:
    """A row that nothing turns red holds nothing: which mutation does is said by its `caught_by`, case by case."""
    rows = {f"{test}[{row['id']}]" for row in table(ROOT / "tests" / "security" / "web.yaml") if key in row}
    named = {case for mutation in MUTATIONS for case in mutation.caught_by if case.startswith(f"{test}[")}
    assert rows == named


PACKAGE = "def double(number):\n    return number * 2\n\n\ndef unused():\n    return 1\n"
TESTS = "import pytest\nfrom metaflow_agents.sums import double\n\n\n" \
        "def test_double():\n    assert double(3) == 6, 'three twice'\n\n\n" \
        "def test_red():\n    assert False\n\n\n" \
        "@pytest.mark.parametrize('number', [0, 3])\ndef test_cases(number):\n    assert double(number) == number + number\n"
LISTED = [                                  # name, replaced, by, test, what is said of it
    ("caught", "number * 2", "number * 3", "test_double", "caught"),
    ("not caught", "return 1", "return 2", "test_double", "not caught"),
    ("does not apply", "number * 9", "number", "test_double", "broken"),
    ("no Python", "number * 2", "number *", "test_double", "broken"),
    ("a name that is none", "number * 2", "numbr * 2", "test_double", "broken"),
    ("no import", "def unused", "import nothing.such\ndef unused", "test_double", "broken"),
    ("a case", "number * 2", "number * 3", "test_cases[3]", "caught"),
    ("a case that stays green", "number * 2", "number * 3", "test_cases[3] test_cases[0]", "not caught"),
    ("red anyway", "number * 2", "number", "test_red", "broken"),
    ("no test", "number * 2", "number", "test_gone", "broken"),
]


@pytest.mark.slow
def test_the_runner_tells_what_is_caught_from_what_only_breaks(tmp_path: Path) -> None:
    """A tree of three files: a mutation that some test notices, one that none does, and those that prove nothing."""
    for name, text in (("metaflow_agents/__init__.py", ""), ("metaflow_agents/sums.py", PACKAGE), ("tests/test_sums.py", TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tests/mutations").mkdir()
    listed = [{"name": name, "file": "metaflow_agents/sums.py", "replace": old, "by": new,
               "caught_by": [f"tests/test_sums.py::{one}" for one in test.split()]} for name, old, new, test, _ in LISTED]
    (tmp_path / "tests/mutations/sums.yaml").write_text(json.dumps(listed))       # which is YAML too
    ran = subprocess.run([sys.executable, HERE / "run.py", "--root", tmp_path, "--json", tmp_path / "found"],
                         capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    found = {one["name"]: one for one in json.loads((tmp_path / "found").read_text())}
    assert {name: one["outcome"] for name, one in found.items()} == {name: said for name, *_, said in LISTED}
    assert found["caught"]["test"] == "tests/test_sums.py::test_double" and "three twice" in found["caught"]["message"]
    assert (tmp_path / "metaflow_agents/sums.py").read_text() == PACKAGE, "the tree itself is left alone"
