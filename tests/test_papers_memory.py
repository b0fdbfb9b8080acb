"""The figures of the papers' table that are about memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.papers import indexes
from benchmarks.papers.memory import rows
from benchmarks.papers.needs import NotMeasured


def test_scores_and_ranks_are_those_computed_by_hand() -> None:
    assert rows(Path())[0].here == "5 of 5; 4 of 4"


@pytest.mark.one_in(4)
def test_indexes_are_told_beside_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    pytest.importorskip("faiss")
    monkeypatch.setattr(indexes, "SIZE", 400)
    told = indexes.rows(Path())
    assert [row.what.partition(":")[0] for row in told] == [
        "clustered vectors, hnsw", "clustered vectors, faiss", "noise vectors, hnsw", "noise vectors, faiss", "full text"]
    assert all(float(row.here.partition(",")[0]) > 0.9 for row in told[:2]) and told[0].differs.startswith("400 vectors")


def test_an_extra_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "WANTED", ("numpy", "an_index_that_is_not_there"))
    with pytest.raises(NotMeasured, match="an_index_that_is_not_there not installed: pip install"):
        indexes.rows(Path())
