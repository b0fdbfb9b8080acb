"""Indexes over embeddings, by name: which memories are nearest to a question."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Literal

from metaflow_agents.errors import MemoryFault
from metaflow_agents.memory.indexes.port import Similarity, VectorIndex

IndexName = Literal["exact", "hnsw", "faiss"]
_MODULES: dict[IndexName, tuple[str, str]] = {              # name → module and class
    "exact": ("exact", "ExactIndex"), "hnsw": ("hnsw", "HNSWIndex"), "faiss": ("faiss", "FaissIndex")}


def make_index(name: IndexName, dimensions: int, similarity: Similarity = "cosine") -> VectorIndex:
    """An empty index. Raises MemoryFault where the library that it takes is not installed."""
    module, kind = _MODULES[name]
    try:
        made: Callable[[int, Similarity], VectorIndex] = getattr(import_module(f"{__name__}.{module}"), kind)
    except ModuleNotFoundError as error:
        extra = "faiss" if name == "faiss" else "embeddings"
        raise MemoryFault(f"the index `{name}` needs the package {error.name}: "
                          f"pip install 'metaflow-agents[{extra}]'") from error
    return made(dimensions, similarity)
