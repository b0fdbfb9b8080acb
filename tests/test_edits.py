# ruff: noqa: E501  (files and edits stand here as they are written)
"""Edits: to the letter as `str.replace`, drifted ones in their place, and nothing where no place or more than one is theirs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import chance, examples, some

from benchmarks import edits as drifts
from metaflow_agents.code.edits import Edit, Hints, edited, whole_lines

PACKAGE = sorted(path for path in (Path(__file__).parent.parent / "metaflow_agents").rglob("*.py") if path.stat().st_size > 3000)
LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "d = 1", "\te"]), max_size=8)


def made(text: str, search: str, replace: str) -> tuple[str, tuple[str, ...]]:
    done = edited(text, [Edit(tuple(search.split("\n")), tuple(replace.split("\n")) if replace else ())], Hints())
    return done.text, tuple(fault.why for fault in done.faults)


@pytest.mark.one_in(4)
@settings(max_examples=examples(2000))
@given(LINES, LINES.filter(any), LINES, LINES, st.sampled_from(["\n", "\r\n"]))
def test_what_stands_there_once_is_replaced_and_nothing_else(before: list[str], search: list[str], new: list[str], after: list[str],
                                                             end: str) -> None:
    lines = [*before, "<<", *search, ">>", *after]
    done = edited(end.join(lines), [Edit(("<<", *search, ">>"), ("<<", *new, ">>"))], Hints())
    assert (done.text, done.faults) == (end.join([*before, "<<", *new, ">>", *after]), ())
    assert done.places == ((len(before) + 1, "exact"),)


def changed(path: Path, rng: random.Random) -> drifts.Case:
    """A change of some lines of a file, told with those around it, which stand there once."""
    while True:
        lines = path.read_text(encoding="utf-8").split("\n")
        first = rng.randrange(len(lines) - 8)
        last = first + rng.choice([0, 1, 1, 1, 2, 3])
        new = [line.replace("self", "other", 1) if "self" in line else line + "  # new" if line.strip() else line
               for line in lines[first:last]] + ([" " * (len(lines[last]) - len(lines[last].lstrip())) + "added = 1"] if rng.random() < 0.6 else [])
        one, two = max(0, first - 3), min(len(lines), last + 3)
        edit = Edit(tuple(lines[one:two]), tuple(lines[one:first] + new + lines[last:two]))
        if edit.search != edit.replace and any(line.strip() for line in edit.search) and "\n".join(lines).count("\n".join(edit.search)) == 1:
            return drifts.Case("\n".join(lines), edit, "\n".join(lines[:first] + new + lines[last:]))


@pytest.mark.one_in(8)
def test_drifted_edits_of_real_files_come_out_as_the_change_or_not_at_all() -> None:
    """None in the wrong place, and 95 % of those whose place is clear in theirs."""
    right, clear, wrong = 0, 0, []
    rng = chance("drifted edits")
    for path in some(PACKAGE, 12):
        for _ in range(3):
            case = changed(path, rng)
            for drift in drifts.DRIFTS:
                drifted = drift(case, rng)
                if drifted is None:
                    continue
                verdict = drifts.judged(drifted, drifts.ours(drifted))
                if verdict == "wrong":
                    wrong.append((path.name, drift.__name__, drifted.edit))
                clear += drifted.after is not None
                right += drifted.after is not None and verdict == "right"
    assert not wrong
    assert right >= 0.95 * clear > 50, (right, clear)


CLASS = "class A:\n    def f(self):\n        x = 1\n        return x\n\n    def g(self):\n        y = 2\n        return y\n"


@pytest.mark.parametrize(("search", "replace", "text"), [
    ("def f(self):\n    x = 1\n    return x", "def f(self):\n    x = 2\n    if x:\n        x = 3\n    return x",
     CLASS.replace("        x = 1\n", "        x = 2\n        if x:\n            x = 3\n")),
    ("\tdef f(self):\n\t\tx = 1", "\tdef f(self):\n\t\tx = 1\n\t\tz = 3", CLASS.replace("x = 1\n", "x = 1\n        z = 3\n")),
    ("x=1", "x = 5", CLASS.replace("x = 1", "x = 5")),
    ("def g(self", "def h(self", CLASS.replace("def g", "def h")),
    ("    def g(self):\n        z = 2  # what it was\n        return y", "    def g(self):\n        z = 2  # what it was\n        return 5", None),
    ("    def f(self):\n        x = 1\n        return x\n    def g(self):", "    def f(self):\n        return 1\n    def g(self):",
     CLASS.replace("        x = 1\n        return x\n", "        return 1\n")),
    ("    return", "    return 5", None), ("eturn x", "eturn z", None), ("}", "]", None),
])
def test_places(search: str, replace: str, text: str | None) -> None:
    """Another indentation, tabs, spaces, a part of a line, empty lines; None: no place is clear."""
    now, faults = made(CLASS, search, replace)
    assert (now if not faults else None) == text


def test_line_ends_of_lines_that_stay_and_of_new_ones() -> None:
    """A file may mix them."""
    done = edited("a\r\nb\nc\r\nd", [Edit(("b ", "c"), ("b ", "n", "c"))], Hints())
    assert done.text == "a\r\nb\nn\r\nc\r\nd" and done.places == ((2, "spaced"),)
    assert edited("a\nb", [Edit(("b",), ())], Hints()).text == "a"
    assert edited("a\nb", [Edit(("b",), ("c", "d"))], Hints()).text == "a\nc\nd"


def test_what_the_edit_did_not_show_is_not_taken_out() -> None:
    text = "start\none\nunseen\ntwo\nthree\nfour\nend\n"
    search = "start\none\ntwo\nthree\nfour\nend"
    assert made(text, search, "start\nnew\nend")[1]
    assert made(text, search, search.replace("three", "3")) == (text.replace("three", "3"), ())


def test_a_line_that_was_misremembered_and_stays_is_as_the_file_has_it() -> None:
    text = "def total(rows):\n    found = sum(row.amount for row in rows)\n    check(found)\n    log(found)\n    return found\n"
    search = "def total(rows):\n    found = sum(row.amounts for row in rows)\n    check(found)\n    log(found)\n    return found"
    replace = search.replace("    log(found)\n", "    log(found, 2)\n")
    assert made(text, search, replace) == (text.replace("log(found)", "log(found, 2)"), ())


def test_more_places_than_one_are_told() -> None:
    (why,) = made("x = 1\ny\n  x = 1\n", "x =  1", "x = 2")[1]
    assert why.startswith("SEARCH stands 2 times in the file, at its lines 1, 3")


def test_an_answer_may_not_have_a_file_looked_through_without_end() -> None:
    """Each edit that fits but for white space changes the file, so that all of it would be looked through anew."""
    text = "\n".join(f"value_{number} = {number}" for number in range(1000))
    done = edited(text, [Edit((f" value_{number} = {number}",), ("x",)) for number in range(20)], Hints(lines=10_000))
    assert len(done.places) == 10 and len(done.faults) == 10


@pytest.mark.parametrize(("search", "replace", "edit"), [
    ("a\n", "b\n", Edit(("a",), ("b",))), ("a\n", "", Edit(("a",), ())), ("a", "b\n", Edit(("a",), ("b", ""))),
    ("a\r\nb", "c", Edit(("a", "b"), ("c",))),
])
def test_two_texts_as_an_edit(search: str, replace: str, edit: Edit) -> None:
    assert whole_lines(search, replace) == edit
