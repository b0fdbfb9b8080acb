"""Indexes over embeddings, by name: which memories are nearest to a question."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from metaflow_agents import plugins
from metaflow_agents.errors import MemoryFault, UsageError, raised
from metaflow_agents.memory.indexes.port import VectorIndex
from metaflow_agents.schema.role import IndexName, Similarity

_MODULES: dict[str, tuple[str, str]] = {              # name → module and class
    "exact": ("exact", "ExactIndex"), "hnsw": ("hnsw", "HNSWIndex"), "faiss": ("faiss", "FaissIndex")}


_PACKAGES: dict[str, tuple[str, ...]] = {"exact": ("numpy",), "hnsw": ("numpy", "usearch"), "faiss": ("numpy", "faiss")}


def missing(name: IndexName) -> str:
    """What an index needs and is not installed here, with the mend after the first `: `; empty where nothing is missing. Nothing
    of ours is imported; a package that adds the index is.
    """
    if name not in _MODULES:
        try:
            _of_package(name)
        except UsageError as error:
            return str(error)
        return ""
    gone = next((package for package in _PACKAGES[name] if find_spec(package) is None), "")
    return _told(name, gone) if gone else ""


def _told(name: IndexName, package: str) -> str:
    return (f"the index `{name}` needs the package {package}: "
            f"pip install 'metaflow-agents[{'faiss' if name == 'faiss' else 'embeddings'}]'")


def make_index(name: IndexName, dimensions: int, similarity: Similarity = "cosine") -> VectorIndex:
    """An empty index. Raises MemoryFault where the library that it takes is not installed, or the package that adds it is not."""
    if name not in _MODULES:
        return _made_by_package(name, dimensions, similarity)
    module, kind = _MODULES[name]
    try:
        made: Callable[[int, Similarity], VectorIndex] = getattr(import_module(f"{__name__}.{module}"), kind)
    except ModuleNotFoundError as error:
        raise MemoryFault(_told(name, error.name or "")) from error
    return made(dimensions, similarity)


def _of_package(name: str) -> tuple[plugins.Plugin, Callable[[int, Similarity], VectorIndex]]:
    """The class of an index that an installed package adds. Raises UsageError."""
    plugin = plugins.offered("memory_indexes", name, "index", _MODULES)
    kind = plugin.load()
    if not callable(kind):
        raise UsageError(f"`{name}` (memory_indexes) of {plugin.maker} can't be called: it makes no index; fix or uninstall "
                         f"{plugin.distribution}")
    return plugin, kind


def _made_by_package(name: str, dimensions: int, similarity: Similarity) -> VectorIndex:
    from metaflow_agents.memory.indexes.installed import InstalledIndex

    try:
        plugin, kind = _of_package(name)
    except UsageError as error:
        raise MemoryFault(str(error)) from error
    try:
        return InstalledIndex(f"the index `{name}` of {plugin.maker}", kind(dimensions, similarity))
    except Exception as error:              # somebody else's code
        raise MemoryFault(f"the index `{name}` of {plugin.maker} can't be made: {raised(error)}") from error
