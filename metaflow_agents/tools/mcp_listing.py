"""What a server offers, sifted: each tool is kept, bounded, or refused with the reason; one bad tool costs no other. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.tools.mcp_schema import SchemaUnusable, bounded, refuse_unusable
from metaflow_agents.tools.mcp_text import cut, visible

MOST_TOOLS = 1000
MOST_CHARACTERS = 500_000           # of all schemas together, as JSON
LONGEST_DESCRIPTION = 4000          # characters
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class MCPListing:
    """A tool that a server offers: its own name there, what it is for, and the schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Listing:
    """The tools of a server as they come in, page by page. `refused`: name, as it can be shown → why."""

    def __init__(self) -> None:
        self.kept: dict[str, MCPListing] = {}
        self.refused: dict[str, str] = {}
        self._taken: set[str] = set()
        self._characters = 0
        self._new: list[MCPListing] = []

    def add(self, tool: Any) -> MCPListing | None:
        """One more tool, as it stands on the wire; None where it is refused. Quick: `settle` looks closer."""
        name: Any = tool.get("name") if isinstance(tool, dict) else tool
        why = self._why_not(tool, name)
        if not why:
            try:
                offered = MCPListing(name, _description(tool), bounded(tool.get("inputSchema")))
            except SchemaUnusable as error:
                why = str(error)
            else:
                why = self._too_much(offered)
        if why:
            self.refused[_shown(name)] = why
            return None
        self._taken.add(name.lower())
        self.kept[name] = offered
        self._new.append(offered)
        return offered

    def settle(self) -> None:
        """Looks closer at the tools that came in since; takes seconds where a server brings much."""
        new, self._new = self._new, []
        for offered in new:
            try:
                refuse_unusable(offered.parameters)
            except SchemaUnusable as error:
                del self.kept[offered.name]
                self.refused[offered.name] = str(error)

    def _too_much(self, offered: MCPListing) -> str:
        self._characters += len(json.dumps(offered.parameters))
        return f"all schemas together have more than {MOST_CHARACTERS:,} characters" if self._characters > MOST_CHARACTERS else ""

    def _why_not(self, tool: Any, name: Any) -> str:
        if not isinstance(tool, dict):
            return "it is no object, as a tool is"
        if not isinstance(name, str):
            return "its name is no text"
        if not _NAME.fullmatch(name):
            return "a name has letters, digits and `_ - . /` of ASCII, 1 to 128 of them"
        if name.lower() in self._taken:
            return "its name is duplicated in the list; the first one keeps it"
        return f"there are more than {MOST_TOOLS:,} tools" if len(self.kept) >= MOST_TOOLS else ""


def _description(tool: Mapping[str, Any]) -> str:
    written = tool.get("description") or tool.get("title")
    return cut(visible(written), LONGEST_DESCRIPTION) if isinstance(written, str) else ""


def _shown(name: Any) -> str:
    text = visible(str(name))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
