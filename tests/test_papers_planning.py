"""What the benchmarks of papers measure of plans and queues on public data."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

DATA = os.environ.get("SOP_TEST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="SOP_TEST_DATA does not name a folder with public data")


def numbers(text: str) -> list[int]:
    return [int(one.replace(",", "")) for one in re.findall(r"\d+(?:,\d{3})*", text)]


@pytest.mark.one_in(30)
def test_plans_of_others_are_carried_out_as_the_graphs_that_they_are() -> None:
    from benchmarks.papers import plan_and_execute

    solved, same, wide, rounds, order, mended = (row.here for row in plan_and_execute.rows(Path(DATA or "")))
    told, blind, alone, asked = numbers(solved)
    assert told == asked == 270 and blind < 20 and alone < 20, "what a task needs reaches it; without that little is right"
    assert numbers(same) == [26, 26]
    assert numbers(wide) == [6, 6, 200, 200], "measured concurrency is the width of each graph"
    least, tasks, *_ = numbers(rounds)
    assert tasks == 1410 and least < 1000
    assert numbers(order)[:2] == [20, 20] and numbers(order)[2] > 20, "value for effort: the best of all 720 orders, each time"
    accepted, broken = numbers(mended)
    assert broken > 200 and accepted > 0.98 * broken


@pytest.mark.one_in(10)
def test_a_queue_is_ordered_grows_and_loses_nothing() -> None:
    from benchmarks.papers import task_queue

    solved, lossy = (row.here for row in task_queue.rows(Path(DATA or "")))
    whole, fifo, once, asked = numbers(solved)
    assert whole == asked == 128 and fifo < 100 and once < 10
    told, missing, right, problems, lost = numbers(lossy)
    assert told == missing > 300 and right == problems == 128 and lost == 0
