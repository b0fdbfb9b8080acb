"""Indexes over embeddings, by name: which memories are nearest to a question."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from metaflow_agents.errors import MemoryFault
from metaflow_agents.memory.indexes.port import VectorIndex
from metaflow_agents.schema.role import IndexName, Similarity

_MODULES: dict[IndexName, tuple[str, str]] = {              # name → module and class
    "exact": ("exact", "ExactIndex"), "hnsw": ("hnsw", "HNSWIndex"), "faiss": ("faiss", "FaissIndex")}


_PACKAGES: dict[IndexName, tuple[str, ...]] = {"exact": ("numpy",), "hnsw": ("numpy", "usearch"), "faiss": ("numpy", "faiss")}


def missing(name: IndexName) -> str:
    """What an index needs and is not installed here, with the mend; empty where nothing is missing. Nothing is imported."""
    gone = next((package for package in _PACKAGES[name] if find_spec(package) is None), "")
    return _told(name, gone) if gone else ""


def _told(name: IndexName, package: str) -> str:
    return (f"the index `{name}` needs the package {package}: "
            f"pip install 'metaflow-agents[{'faiss' if name == 'faiss' else 'embeddings'}]'")


def make_index(name: IndexName, dimensions: int, similarity: Similarity = "cosine") -> VectorIndex:
    """An empty index. Raises MemoryFault where the library that it takes is not installed."""
    module, kind = _MODULES[name]
    try:
        made: Callable[[int, Similarity], VectorIndex] = getattr(import_module(f"{__name__}.{module}"), kind)
    except ModuleNotFoundError as error:
        raise MemoryFault(_told(name, error.name or "")) from error
    return made(dimensions, similarity)
