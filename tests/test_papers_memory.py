"""The figures of the papers' table that are about memory."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers.memory import rows


def test_scores_and_ranks_are_those_computed_by_hand() -> None:
    assert [row.here for row in rows(Path())] == ["5 of 5; 4 of 4"]
