"""What tools a model is shown in one activation: all that its role has, or a search over them where they are many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from metaflow_agents.agent.ask_role import AskRole
from metaflow_agents.errors import did_you_mean
from metaflow_agents.policy.action import Action, Verb
from metaflow_agents.policy.judged import BUILT_IN
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, Tool, ToolResult
from metaflow_agents.tools.retrieval import TOOLS_SHOWN, ToolIndex
from metaflow_agents.tools.showing import SHOWN, More
from metaflow_agents.tools.toolbox import Toolbox

Told = Mapping[str, Any]
"""A tool as a model is told of it: `name`, `description`, `parameters`."""


class Offered:
    """The tools of one activation. `own` are those of this process; `listed` what servers and services offered when the
    activation began, as it is journalled: name, description, parameters.
    """

    def __init__(self, toolbox: Toolbox, own: list[Tool], listed: list[Told]) -> None:
        self._toolbox = toolbox
        self._own = {tool.name: tool for tool in own}
        self._listed = {told["name"]: told for told in listed}
        self._cut: dict[str, str] = {}
        self._loaded: list[str] = []
        self._index: ToolIndex | None = None
        if len(self._own) + len(self._listed) > TOOLS_SHOWN:
            told = [*self._told_own(), *self._listed.values()]
            self._index = ToolIndex(told)
            self._own["find_tools"] = FindTools(self._index, self._load)

    def __bool__(self) -> bool:
        return bool(self._own or self._listed)

    def told(self) -> tuple[Told, ...]:
        """What the next request tells of tools, in stable order."""
        hidden = self._index is not None
        found = [told for told in self._told_own() if not hidden or told["name"] in ("find_tools", *self._loaded)]
        found += [told for name, told in self._listed.items() if not hidden or name in self._loaded]
        if self._cut:
            found.append(_told(More(self._cut)))
        return tuple(found)

    def said(self, call: str, text: str) -> None:
        """A call's result; where it is shown cut, the rest can be asked for from now on."""
        if len(text) > SHOWN:
            self._cut[call] = text

    def replayed(self, key: str, name: str, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """A call that ended before the run was gone on with: what it loaded is loaded again, what was answered is known."""
        tool = self._own.get(name)
        if isinstance(tool, AskRole) and not result.error:
            tool.replayed(key, arguments, result.text)
        if name == "find_tools" and self._index is not None:
            self._load(self._index.search(str(arguments.get("query", ""))))

    @staticmethod
    def verb(name: str) -> Verb | None:
        """The verb of a built-in tool; None for others."""
        return "read" if name in (More.name, FindTools.name) else BUILT_IN.get(name)

    def on_files(self, name: str) -> bool:
        """Whether it is a function of the SOP that acts on the files of the activation."""
        return bool(getattr(self._own.get(name), "on_files", False))

    @property
    def changes_files(self) -> bool:
        """Whether some function of the SOP acts on the files of the activation."""
        return any(map(self.on_files, self._own))

    async def found(self, name: str) -> tuple[Tool | None, str]:
        """The tool of that name; or why there is none."""
        if name == "more" and self._cut:
            return More(self._cut), ""
        if name in self._own:
            return self._own[name], ""
        names = [told["name"] for told in self.told()]
        if name not in self._listed:
            return None, f"there is no tool `{name}`: {did_you_mean(name, names)}"
        tool = await self._toolbox.named(name)
        if tool is None:
            others = [one for one in names if one != name]
            return None, f"`{name}` is no longer offered by its server; {did_you_mean(name, others)}"
        return tool, ""

    def _told_own(self) -> list[Told]:
        return [_told(tool) for tool in self._own.values()]

    def _load(self, names: list[str]) -> None:
        self._loaded += [name for name in names if name not in self._loaded]


def _told(tool: Tool) -> Told:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


class _Finding(Arguments):
    query: str = Field(min_length=1, description="what you want to do, in a few words")


class FindTools(BuiltIn[_Finding]):
    """Find tools for what you want to do. Those that it names can be called from your next message on."""

    name: ClassVar[str] = "find_tools"
    free = True
    takes = _Finding

    def __init__(self, index: ToolIndex, load: Any) -> None:
        self._index, self._load = index, load

    def would(self, given: _Finding) -> Action:
        """It reads descriptions."""
        return Action("read", "")

    async def do(self, given: _Finding, situation: Situation) -> ToolResult:
        """Names and descriptions of the nearest."""
        names = self._index.search(given.query)
        self._load(names)
        if not names:
            return ToolResult(f"no tool is about `{given.query}`: use other words")
        return ToolResult("\n".join(f"- `{name}`: {self._index.description(name)}" for name in names))
