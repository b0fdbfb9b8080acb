"""`packages`: resolve and lock what the commands of a run may import. Only steps call it."""

from __future__ import annotations

import json
from typing import ClassVar

from pydantic import Field

from metaflow_agents.packages.environments import Environments
from metaflow_agents.packages.requirements import wanted
from metaflow_agents.policy.action import Action
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult


class _Resolving(Arguments):
    requirements: list[str] = Field(
        description="names of packages with extras and versions as pip takes them, `flask>=3`; no URLs, paths or options")


class Packages(BuiltIn[_Resolving]):
    """Resolve Python packages to wheels and lock them, for the environment of commands. Nothing of them is run."""

    name: ClassVar[str] = "packages"
    takes = _Resolving

    def __init__(self, environments: Environments) -> None:
        self._environments = environments

    def would(self, given: _Resolving) -> Action:
        """`install(NAME, NAME[EXTRA])`. Raises AnswerInvalid for what is no requirement."""
        return Action("install", ", ".join(dict.fromkeys(str(one.subject) for one in wanted(given.requirements))))

    async def do(self, given: _Resolving, situation: Situation) -> ToolResult:
        """The lock, as JSON."""
        lock = await self._environments.resolved(wanted(given.requirements))
        return ToolResult(json.dumps(lock.model_dump(mode="json")))
