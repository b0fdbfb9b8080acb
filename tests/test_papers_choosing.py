"""What the papers' table tells of strategies that choose: among experts, among answers of others, among earlier outputs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from benchmarks.papers import debate, hindsight, route
from benchmarks.papers.react import problems

DATA = os.environ.get("SOP_TEST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")


def numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", text)]


@pytest.mark.one_in(10)
def test_requests_come_to_the_expert_whose_description_fits() -> None:
    whole, matrix, sums = (row.here for row in route.rows(Path(DATA or "")))
    own, asked, blind, third = numbers(whole)
    assert (own, asked) == (511, 605) and blind < third / 10, "without descriptions nobody is found"
    lines = [numbers(line) for line in matrix.splitlines()[1:]]
    assert sum(map(sum, lines)) == asked and sum(line[place] for place, line in enumerate(lines)) == own
    assert all(line[place] == max(line) for place, line in enumerate(lines)), "each kind comes most often to its own expert"
    right, all_sums, bare, _ = numbers(sums)
    assert right > 0.7 * all_sums and bare == 0, "without its argument the calculator computes nothing"


@pytest.mark.one_in(10)
def test_who_sees_the_others_answers_is_convinced_by_the_right_one() -> None:
    known = problems(Path(DATA or ""))
    first, second = (numbers(row.here) for row in debate.rows(Path(DATA or "")))
    expected = debate.expected(known)
    assert first == [expected["alone"], expected["vote"], expected["debate"], len(known)] and first[0] < first[1] < first[2]
    unseen, judged, third = second
    votes = debate.expected(known[::3])
    assert unseen == votes["vote"] and judged == votes["debate"] and third == len(known[::3])


@pytest.mark.one_in(10)
def test_what_stands_last_in_the_context_is_gone_on_from() -> None:
    given = hindsight.puzzles(Path(DATA or ""))
    rated, learnt = (numbers(row.here) for row in hindsight.rows(Path(DATA or "")))
    rising, logged, falling, alone, count = rated[:5]
    assert count == 50 and rising > 2 * max(logged, falling, alone)
    needed = [hindsight.openings_needed(one.numbers) for one in given]
    assert learnt[0] == sum(one <= hindsight.ROUNDS for one in needed) and learnt[1] == sum(one == 1 for one in needed)
