"""By which verb of a policy each tool of a SOP is judged. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from metaflow_agents.policy.action import PLAIN, Verb
from metaflow_agents.schema.sop import SOP

BUILT_IN: dict[str, Verb] = {
    "read": "read", "write": "write", "edit": "write", "list": "read", "search": "read", "map": "read", "run": "run",
    "python": "python", "fetch": "fetch", "packages": "install", "ask_person": "ask_person", "start_role": "start_role"}
"""Built-in tool → the verb of what it does."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How calls of a tool are judged. `name`: what rules are matched with, perhaps a glob; empty where the arguments say."""

    tool: str
    verb: Verb
    name: str = ""

    @property
    def rule(self) -> str:
        """The rule that is about all its calls."""
        if self.verb in PLAIN:
            return self.verb
        return f"{self.verb}({self.name or '**'})"


def judged(tool: str, sop: SOP) -> Judged | None:
    """How a tool is judged, by its name as roles write it; None for what is no tool of the SOP."""
    if tool in BUILT_IN:
        return Judged(tool, BUILT_IN[tool])
    source, _, pattern = tool.partition(".")
    if source in sop.tools and sop.tools[source].source is not None:
        return Judged(tool, "call", f"{source}.{pattern or '*'}")
    if tool in sop.tools:
        return Judged(tool, "call", tool)
    if source in sop.mcp_servers:
        return Judged(tool, "mcp", f"{source}.{pattern or '*'}")
    if source in sop.openapi:
        return Judged(tool, "api", f"{source}.{pattern or '*'}")
    return None


def tool_names(sop: SOP) -> tuple[str, ...]:
    """All that a role may write under `tools`."""
    declared = (name for name in sop.tools if name not in BUILT_IN and name not in sop.tool_sources)
    return (*BUILT_IN, *declared, *(f"{name}.*" for name in (*sop.tool_sources, *sop.mcp_servers, *sop.openapi)))
