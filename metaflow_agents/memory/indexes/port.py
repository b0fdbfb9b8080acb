"""What an index over embeddings does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from numpy import float32, int64
    from numpy.typing import NDArray


class VectorIndex(Protocol):
    """Vectors under numbers. Numbers are added once, and higher ones later."""

    def add(self, numbers: NDArray[int64], vectors: NDArray[float32]) -> None:
        """Takes vectors in: `numbers` of shape (n,), `vectors` of shape (n, dimensions), of any length."""
        ...

    def nearest(self, vector: NDArray[float32], count: int) -> list[tuple[int, float]]:
        """Number and similarity of the `count` vectors (or all there are) most similar to this one, best first."""
        ...

    def __len__(self) -> int: ...
