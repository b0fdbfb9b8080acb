"""The tool `map`: which files of the repository matter for a request, and what they define."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from metaflow_agents.policy.action import Action
from metaflow_agents.schema import paths
from metaflow_agents.threads.blocking import Threads
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult

TOKENS = 2_000                      # of a map, unless it is asked for another size
_MOST_TOKENS = 32_000


class _Mapping(Arguments):
    request: str = Field("", max_length=20_000, description="what is to be done or found; names and paths in it count most")
    tokens: int = Field(TOKENS, ge=100, le=_MOST_TOKENS, description="how long the map may be")
    pattern: str = Field("**", description="of the paths to look in")
    files: tuple[str, ...] = Field((), max_length=100, description="paths that are known to matter")


class MapTool(BuiltIn[_Mapping]):
    """Show which files of the repository matter for a request, the best first, with what they define and at which line."""

    name: ClassVar[str] = "map"
    free = True
    takes = _Mapping

    def __init__(self) -> None:
        self._threads = Threads(1, "map")

    def would(self, given: _Mapping) -> Action:
        """`read(PATTERN)`."""
        return Action("read", given.pattern)

    async def do(self, given: _Mapping, situation: Situation) -> ToolResult:
        """The map; what of the files could not be parsed stands in it with its reason."""
        # Grammars and networkx are loaded by the runs that draw a map.
        from metaflow_agents.code.map.mapping import MOST_FILES, mapped

        why = paths.pattern_refusal(given.pattern)
        if why:
            return ToolResult(f"`{given.pattern}` is no path pattern: {why}", error=True)
        chosen = {path: data for path, data in situation.files.items() if paths.matches((given.pattern,), path)}
        if not chosen:
            return ToolResult(f"no file matches `{given.pattern}`; there are {len(situation.files)} files in all", content="")
        lacks = (f"`{given.pattern}` matches {len(chosen):,} files, and {MOST_FILES:,} are mapped at once: give a narrower "
                 "`pattern`")
        found = await mapped(self._threads, chosen, given.request, given.tokens, given.files)
        return ToolResult(found.text, lacks=lacks if len(chosen) > MOST_FILES else "")
