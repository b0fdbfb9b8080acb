"""A minute of hostile inputs for every parser of foreign bytes, other ones each time; and those that once did harm."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.run import fed
from fuzz.targets import TARGETS, beside
from tiers import SEED

HERE = Path(__file__).parent
SECONDS = 60
STANDSTILL = 4.0                    # seconds, on any machine: the promised second is measured by the command itself
BY_NAME = {target.name: target for target in TARGETS}

HARMFUL = [
    ("blocks", "=== x: " + " " * 30_000),
    ("blocks", "=== edit: src/a.py ===\n<<<<<<< SEARCH\n" + "lime 7\n" * 60 + "=======\n>>>>>>> REPLACE\n=== end ==="),
    ("expressions", "|for" * 10_000),
    ("expressions", "'" + "\\'" * 20_000),
    ("expressions", "{{" + " " * 40_000 + "x"),
    ("expressions", "a \"" + "', got '" * 8_000 + "\n\""),
    ("rendering", "|for" * 10_000),
    ("rendering", "'" + "\\'" * 20_000),
    ("rendering", "{{" + " " * 40_000 + "x"),
    ("rendering", "a \"" + "', got '" * 8_000 + "\n\""),
    ("sop", "sop: x\nroles: {r: {goal: g}}\nsteps: {s: {role: r, makes: a}}\nartifacts: {a: {files: ['" + "{" * 40_000 + "']}}"),
    ("quotations", "> a [S1]" + "\n>" * 40_000 + " x [S1]"),
    ("quotations", ("[S1" + " " * 190 + "x]") * 400),
    ("calls", "~" * 60_000 + "`"),
    ("structured", '{"n": ' + "9" * 400 + "}"),
    ("structured", "9" * 5000),
    ("structured", "[" * 200_000),
    ("structured", "NaN"),
    ("structured", "1e999"),
    ("structured", '"\\ud800"'),
    ("policy", "ls\n" + "{" * 60_000),
    ("policy", "x" * 99_000),
    ("urls", "http://[&q=1&"),
    ("urls", "http://[::ffff:1"),
    ("packaging", "a = " + "[" * 10_000),
    ("packaging", '[project]\nname = "p"\n[project.scripts]\n' + "a." * 1_900 + 'a = "p.a:f"'),
    ("packaging", "[tool." + "a.b.c" * 80_000),
    ("plans", "(?:" * 130_000),
    ("plans", "?y))" * 24_000),
    ("plans", "(a)" * 33_000),
    ("code", "f'{a!r:>{width}} {b}'\n" * 10_000),
    ("code", "a=" * 70_000),
    ("code", "(" * 5_000),
    ("code", "-" * 90_000 + "1"),
    ("quotations", "“" * 20_000),
    ("quotations", "“Nested ‘word3’ words” [S1; S2]\n" * 2_000),
    ("quotations", "It is “word1 word2 word3 word4” [S1], and “word9 … word11 word12” [S1, p. 3].\n" * 2_560),
    ("quotations", "sh -c '" * 20_000 + "'" * 50_000 + "[S1; S2]"),
    ("html", "<div>" * 30_000),
    ("junit", "<testsuite>" + "<testcase name='a'><failure>x</failure></testcase>" * 5_000 + "</testsuite>"),
    ("junit", "<a>" * 100_000),
    (
        "openapi",
        '{"openapi": "3.1.0", "servers": [{"url": "https://a.b"}], "paths": {"/x": {"get": {"servers": [{"url": "//[x"}]}}}}',
    ),
]


@pytest.mark.parametrize(("target", "text"), HARMFUL, ids=lambda value: value[:20])
def test_what_once_did_harm(target: str, text: str) -> None:
    assert fed(BY_NAME[target], text, STANDSTILL) == ""


@pytest.mark.slow
def test_a_minute_of_hostile_inputs() -> None:
    """On a fault, its line says how to feed that input again; the seed of the tests is another one each time."""
    run = subprocess.run(
        [sys.executable, str(HERE / "fuzz" / "run.py"), "--seconds", str(SECONDS), "--seed", str(SEED),
         "--standstill", str(STANDSTILL)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout + run.stderr


@pytest.mark.one_in(8)
def test_the_fuzzer_sees_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise KeyError(text)

    def slow(text: str) -> None:
        while True:
            sum(range(10_000_000))
            break
        for _ in range(40):
            sum(range(1_000_000))

    assert "KeyError: \"'x'\" at test_fuzz.py" in fed(type(TARGETS[0])("broken", broken, lambda: ("x",)), "x")
    def holding(text: str) -> None:                         # the engine of regular expressions keeps the lock of the interpreter
        beside(lambda: re.fullmatch("(a+)+b", text), 0.2)

    assert "TimeoutError" in fed(type(TARGETS[0])("holding", holding, lambda: ("x",)), "a" * 24)
    beside(lambda: [sum(range(1000)) for _ in range(20_000)], 0.2)
    assert "stood still" in fed(type(TARGETS[0])("slow", slow, lambda: ("x",)), "x", 0.1)
    def hungry(text: str) -> None:
        with mmap.mmap(-1, 80 << 20) as taken:              # `malloc` may have as much left over from earlier tests
            for at in range(0, len(taken), mmap.PAGESIZE):
                taken[at] = 1

    large = type(TARGETS[0])("large", hungry, lambda: ("x",))
    assert fed(large, "x") == ""
    monkeypatch.setattr("fuzz.run.MEMORY", 40 << 10)
    assert "MB of memory" in fed(large, "x")
    assert fed(type(TARGETS[0])("fine", len, lambda: ("x",)), "x") == "", "what was held before is not counted"
