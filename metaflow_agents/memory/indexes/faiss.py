"""The same by FAISS: an HNSW graph of its own, for whom has it installed.

Source: Douze et al., "The Faiss library" (arXiv 2401.08281).
"""

from __future__ import annotations

import faiss
import numpy as np
from numpy.typing import NDArray

from metaflow_agents.memory.indexes.exact import unit
from metaflow_agents.memory.indexes.hnsw import CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH
from metaflow_agents.schema.role import Similarity


class FaissIndex:
    """Fits `VectorIndex`. For cosine, vectors are brought to length 1, where the inner product is the cosine."""

    def __init__(self, dimensions: int, similarity: Similarity = "cosine") -> None:
        self._cosine = similarity == "cosine"
        self._numbers: NDArray[np.int64] = np.empty(0, np.int64)
        self._index = faiss.IndexHNSWFlat(dimensions, CONNECTIVITY, faiss.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction = EXPANSION_ADD

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """See `VectorIndex`."""
        self._numbers = np.concatenate([self._numbers, numbers])
        self._index.add(unit(vectors) if self._cosine else np.ascontiguousarray(vectors, np.float32))

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """See `VectorIndex`."""
        count = min(count, len(self))
        if not count:
            return []
        self._index.hnsw.efSearch = max(EXPANSION_SEARCH, 2 * count)
        asked = vector[None] if not self._cosine else unit(vector[None])
        (found,), (places,) = self._index.search(np.ascontiguousarray(asked, np.float32), count)
        return [(int(self._numbers[place]), float(value)) for value, place in zip(found, places, strict=True) if place >= 0]

    def __len__(self) -> int:
        return len(self._numbers)
