"""What of a result a role is shown: bounded. What is cut is said, and the rest is kept and can be asked for by `more`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from metaflow_agents.errors import did_you_mean
from metaflow_agents.policy.action import Action
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult

SHOWN = 16_000                      # characters of one result
_HEAD = SHOWN * 3 // 4


def shown(text: str, name: str) -> str:
    """A result as it stands in the prompt: where it is longer, its beginning and end, and how to get the rest."""
    if len(text) <= SHOWN:
        return text
    cut = len(text) - SHOWN
    told = f'\n[… {cut:,} characters are left out here: `more` with `call` "{name}" and `from` {_HEAD} shows them …]\n'
    return text[:_HEAD] + told + text[_HEAD + cut:]


class _More(Arguments):
    call: str = Field(description="the call whose result was cut, as the cut says it")
    start: int = Field(0, ge=0, alias="from", description="the first character")


class More(BuiltIn[_More]):
    """Show more of a result that was cut."""

    name: ClassVar[str] = "more"
    free = True
    takes = _More

    def __init__(self, results: Mapping[str, str]) -> None:
        self._results = results

    def would(self, given: _More) -> Action:
        """It reads what was read before."""
        return Action("read", "")

    async def do(self, given: _More, situation: Situation) -> ToolResult:
        """The part, and how much follows."""
        if given.call not in self._results:
            hint = did_you_mean(given.call, self._results)
            return ToolResult(f"there is no result `{given.call}` that was cut: {hint}", error=True)
        text = self._results[given.call]
        part = text[given.start:given.start + _HEAD]
        left = len(text) - given.start - len(part)
        if not part:
            return ToolResult(f"the result has {len(text):,} characters: nothing stands at {given.start:,}", error=True)
        return ToolResult(part + (f"\n[… {left:,} characters follow: `from` {given.start + len(part)} …]" if left > 0 else ""))
