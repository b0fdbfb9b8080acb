"""An index over embeddings that looks at every vector, one by one."""

from __future__ import annotations

from typing import Any


class ByLength:
    """Fits `VectorIndex`."""

    def __init__(self, dimensions: int, similarity: str = "cosine") -> None:
        self._dimensions, self._similarity = dimensions, similarity
        self._there: list[tuple[int, list[float]]] = []

    def add(self, numbers: Any, vectors: Any) -> None:
        self._there += [(int(number), [float(one) for one in vector]) for number, vector in zip(numbers, vectors, strict=True)]

    def nearest(self, vector: Any, count: int) -> list[tuple[int, float]]:
        asked = [float(one) for one in vector]
        found = [(number, self._like(asked, other)) for number, other in self._there]
        return sorted(found, key=lambda pair: -pair[1])[:count]

    def __len__(self) -> int:
        return len(self._there)

    def _like(self, one: list[float], other: list[float]) -> float:
        product = sum(a * b for a, b in zip(one, other, strict=True))
        if self._similarity != "cosine":
            return product
        lengths = (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5
        return product / lengths if lengths else 0.0
