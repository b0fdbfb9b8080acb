"""The whole way: files, a request and a budget in, the map's text out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metaflow_agents.code.map.reading import KEPT, MOST_FILES, KeptTags
from metaflow_agents.code.map.rendering import rendered
from metaflow_agents.threads.blocking import Threads


@dataclass(frozen=True, slots=True)
class Map:
    """`text`: the map. `order`: all files that are text, the best first. `unread`: path → why its definitions are not known."""

    text: str
    order: tuple[str, ...]
    unread: Mapping[str, str]


async def mapped(threads: Threads, files: Mapping[str, bytes], request: str = "", tokens: int = 2_000,
                 mentioned: tuple[str, ...] = (), kept: KeptTags = KEPT) -> Map:
    """The map of some files (path → bytes). Ranking is done in one of `threads`. Raises RunError where no worker starts."""
    parts = await kept.read(files)

    def drawn() -> Map:
        from metaflow_agents.code.map.ranking import ranked  # networkx takes a while to load, and nobody has to wait for it

        order = tuple(path for path, _ in ranked(parts, request, mentioned))
        unread = {path: one.refused for path, one in parts.items() if one.refused}
        return Map(rendered(parts, order, tokens, request), order, unread)

    return await threads.run(drawn)


__all__ = ["MOST_FILES", "Map", "mapped"]
