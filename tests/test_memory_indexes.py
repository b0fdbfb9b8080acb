"""Indexes over embeddings: what each finds against exact search, by cosine and by inner product, which are not the same."""

from __future__ import annotations

from typing import get_args

import pytest

from metaflow_agents.errors import MemoryFault
from metaflow_agents.memory import indexes
from metaflow_agents.memory.indexes import IndexName, make_index
from metaflow_agents.schema.role import OwnIndex, Similarity

np = pytest.importorskip("numpy")
NAMES = get_args(OwnIndex)


def installed(name: IndexName) -> IndexName:
    if name != "exact":
        pytest.importorskip({"hnsw": "usearch", "faiss": "faiss"}[name])
    return name


def vectors(count: int, dimensions: int, lengths: tuple[float, float], seed: int = 3) -> tuple[object, object]:
    """Points around 20 centres, of lengths between the two; and questions around them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(20, dimensions))
    points = centres[rng.integers(20, size=count)] + 0.5 * rng.normal(size=(count, dimensions))
    points *= rng.uniform(*lengths, size=(count, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    asked = centres[rng.integers(20, size=40)] + 0.5 * rng.normal(size=(40, dimensions))
    return points.astype(np.float32), asked.astype(np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_by_hand_cosine_looks_at_directions_and_the_inner_product_at_lengths_too(name: IndexName) -> None:
    points = np.array([[1, 0], [0.6, 0.8], [0, 5], [6, 8]], np.float32)
    for similarity, wanted in (("cosine", {10: 1.0, 11: 0.6, 13: 0.6, 12: 0.0}),
                               ("inner_product", {13: 6.0, 10: 1.0, 11: 0.6, 12: 0.0})):
        index = make_index(installed(name), 2, similarity)
        assert index.nearest(np.array([1, 0], np.float32), 3) == []
        index.add(np.array([10, 11], np.int64), points[:2])
        index.add(np.array([12, 13], np.int64), points[2:])
        found = index.nearest(np.array([1, 0], np.float32), 9)
        assert dict(found) == {number: pytest.approx(value, abs=1e-3) for number, value in wanted.items()}
        assert found[0][0] == next(iter(wanted)) and found[-1][0] == 12 and len(index) == 4


@pytest.mark.one_in(4)
@pytest.mark.parametrize("similarity", get_args(Similarity))
@pytest.mark.parametrize("name", NAMES)
def test_what_exact_search_finds_of_vectors_that_are_not_normalised(name: IndexName, similarity: Similarity) -> None:
    points, asked = vectors(3000, 48, (0.2, 5.0))
    products = points @ asked.T
    if similarity == "cosine":
        products /= np.linalg.norm(points, axis=1, keepdims=True)
    index = make_index(installed(name), 48, similarity)
    index.add(np.arange(3000), points)
    hits = 0
    for place, question in enumerate(asked):
        wanted = {int(number) for number in np.argsort(-products[:, place])[:10]}
        found = index.nearest(question, 10)
        hits += len(wanted & {number for number, _ in found})
        assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)
    assert hits / 400 >= (1.0 if name == "exact" else 0.95)


def test_cosine_and_inner_product_do_differ_on_these_vectors() -> None:
    points, asked = vectors(3000, 48, (0.2, 5.0))
    cosine, product = make_index("exact", 48, "cosine"), make_index("exact", 48, "inner_product")
    for index in (cosine, product):
        index.add(np.arange(3000), points)
    shared = [len({n for n, _ in cosine.nearest(q, 10)} & {n for n, _ in product.nearest(q, 10)}) for q in asked]
    assert sum(shared) / len(shared) < 5


def test_what_is_not_installed_is_told_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError("No module named 'usearch'", name="usearch")

    monkeypatch.setattr(indexes, "import_module", missing)
    with pytest.raises(MemoryFault, match=r"`hnsw` needs the package usearch: pip install 'metaflow-agents\[embeddings\]'"):
        make_index("hnsw", 3)
