"""Exact search: the similarity to every vector, computed by numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metaflow_agents.schema.role import Similarity


class ExactIndex:
    """Fits `VectorIndex`. One product of a matrix and a vector a question."""

    def __init__(self, dimensions: int, similarity: Similarity = "cosine") -> None:
        self._similarity = similarity
        self._numbers: NDArray[np.int64] = np.empty(0, np.int64)
        self._vectors: NDArray[np.float32] = np.empty((0, dimensions), np.float32)

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """See `VectorIndex`."""
        taken = unit(vectors) if self._similarity == "cosine" else vectors
        self._numbers = np.concatenate([self._numbers, numbers])
        self._vectors = np.concatenate([self._vectors, np.asarray(taken, np.float32)])

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """See `VectorIndex`."""
        count = min(count, len(self))
        if not count:
            return []
        found = self._vectors @ (unit(vector[None])[0] if self._similarity == "cosine" else vector)
        best = np.argpartition(found, -count)[-count:]
        best = best[np.lexsort((self._numbers[best], -found[best]))]
        return [(int(self._numbers[place]), float(found[place])) for place in best]

    def __len__(self) -> int:
        return len(self._numbers)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors (n, dimensions) at length 1; one of length 0 stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
    return scaled
