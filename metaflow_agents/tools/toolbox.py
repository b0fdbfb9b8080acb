"""Which tools a role has: built-in ones, functions that the SOP declares, and what servers and services offer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from fnmatch import fnmatchcase

from metaflow_agents.errors import RunError, did_you_mean
from metaflow_agents.tools.port import Tool, ToolSource


class Toolbox:
    """The tools of a run. `own` are those of this process, by name; `sources` are opened at their first use, once a run."""

    def __init__(self, own: Iterable[Tool] = (), sources: Iterable[ToolSource] = ()) -> None:
        self._own = {tool.name: tool for tool in own}
        self._sources = {source.name: source for source in sources}
        self._open = AsyncExitStack()
        self._offered: dict[str, dict[str, Tool]] = {}
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Leaving it ends every server that was started."""
        async with self._open:
            yield

    def own(self, names: Iterable[str]) -> list[Tool]:
        """Those of the names that are tools of this process."""
        return [self._own[name] for name in dict.fromkeys(names) if name in self._own]

    def elsewhere(self, name: str) -> bool:
        """Whether a name is that of a server's or a service's tools."""
        return name.partition(".")[0] in self._sources and name not in self._own

    async def offered(self, names: Iterable[str]) -> list[Tool]:
        """Those of the names (`SERVER`, `SERVER.PATTERN`) that servers and services offer now, in order. Raises RunError."""
        found: dict[str, Tool] = {}
        for written in names:
            source, _, pattern = written.partition(".")
            if source not in self._sources:
                continue
            listed = await self._tools_of(source)
            chosen = {name: tool for name, tool in listed.items() if fnmatchcase(name, f"{source}.{pattern or '*'}")}
            if not chosen:
                raise RunError(f"`{written}` names no tool: {did_you_mean(written, listed)}")
            found.update(chosen)
        return list(found.values())

    async def named(self, name: str) -> Tool | None:
        """The tool of that name as it is offered now."""
        if name in self._own:
            return self._own[name]
        source = name.partition(".")[0]
        return (await self._tools_of(source)).get(name) if source in self._sources else None

    async def _tools_of(self, source: str) -> Mapping[str, Tool]:
        async with self._opening:
            if source not in self._offered:
                await self._open.enter_async_context(self._sources[source].opened())
                self._offered[source] = {tool.name: tool for tool in await self._sources[source].tools()}
            return self._offered[source]
