"""A graph of near neighbours (HNSW), by usearch: most of what exact search finds, at a fraction of its time.

For inner products, which are no distance, the graph is made by the inner product itself: bringing them to a cosine by one more
dimension was tried, and found half as much where lengths differ much (docs/decisions/0036).
Source: Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small World
graphs" (IEEE TPAMI 42, 2020); Morozov and Babenko, "Non-metric Similarity Graphs for Maximum Inner Product Search" (NeurIPS
2018).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

from metaflow_agents.memory.indexes.exact import unit
from metaflow_agents.schema.role import Similarity

CONNECTIVITY = 16                   # neighbours of a vector (M)
EXPANSION_ADD = 64                  # candidates looked at as one is added (efConstruction); with 128 nothing more was found
EXPANSION_SEARCH = 64               # as one is searched (ef), at least; twice as many as asked for, where that is more


class HNSWIndex:
    """Fits `VectorIndex`. A reading of a graph: what it misses it misses every time.

    For the cosine, vectors are brought to length 1 and held as 16-bit floats: a third of the time to build, half of the memory,
    and the same found. A similarity is then true to three digits.
    """

    def __init__(self, dimensions: int, similarity: Similarity = "cosine") -> None:
        self._cosine = similarity == "cosine"
        self._index = Index(ndim=dimensions, metric="cos" if self._cosine else "ip",
                            dtype="f16" if self._cosine else "f32", connectivity=CONNECTIVITY,
                            expansion_add=EXPANSION_ADD, expansion_search=EXPANSION_SEARCH)

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """See `VectorIndex`."""
        self._index.add(numbers, unit(vectors) if self._cosine else vectors)

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """See `VectorIndex`."""
        count = min(count, len(self))
        if not count:
            return []
        self._index.expansion_search = max(EXPANSION_SEARCH, 2 * count)      # type: ignore[misc]      # its setter is not seen
        found = self._index.search(unit(vector[None])[0] if self._cosine else vector, count)
        return [(int(key), 1.0 - float(distance)) for key, distance in zip(found.keys, found.distances, strict=True)]

    def __len__(self) -> int:
        return len(self._index)
