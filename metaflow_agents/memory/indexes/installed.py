"""An index that an installed package adds, held to the port: what it gives are numbers that it was given, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metaflow_agents.errors import MemoryFault, raised
from metaflow_agents.memory.indexes.port import VectorIndex

if TYPE_CHECKING:
    from numpy import float32, int64
    from numpy.typing import NDArray


class InstalledIndex:
    """Fits `VectorIndex`. `what` names it for people."""

    def __init__(self, what: str, index: VectorIndex) -> None:
        self._what, self._index = what, index
        self._numbers: set[int] = set()

    def add(self, numbers: NDArray[int64], vectors: NDArray[float32]) -> None:
        """See `VectorIndex`. Raises MemoryFault for whatever the package raises."""
        try:
            self._index.add(numbers, vectors)
        except Exception as error:
            raise MemoryFault(f"{self._what}: {raised(error)}") from error
        self._numbers.update(map(int, numbers))

    def nearest(self, vector: NDArray[float32], count: int) -> list[tuple[int, float]]:
        """See `VectorIndex`. Raises MemoryFault where what it gives is not that."""
        try:
            found = [(int(number), float(similarity)) for number, similarity in self._index.nearest(vector, count)]
        except Exception as error:
            raise MemoryFault(f"{self._what}: {raised(error)}") from error
        given = [number for number, _ in found]
        if len(given) > count or len(set(given)) < len(given) or not self._numbers.issuperset(given):
            raise MemoryFault(f"{self._what} gave {len(given)} memories for {count}, some twice or some that it was never given")
        return found

    def __len__(self) -> int:
        return len(self._numbers)
