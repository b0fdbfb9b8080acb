"""What built-in tools share: arguments as a pydantic model, which is their schema, and no effect outside of the activation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from metaflow_agents.policy.action import Action
from metaflow_agents.schema.tools import Effect
from metaflow_agents.tools.port import Situation, ToolResult


class Arguments(BaseModel):
    """Base of the arguments of built-in tools: closed against unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


A = TypeVar("A", bound=Arguments)


class BuiltIn(ABC, Generic[A]):
    """A tool of this package. Its description is its class's docstring."""

    name: ClassVar[str]
    takes: type[Arguments]
    free: ClassVar[bool] = False
    """Whether no policy is asked: it shows only what may be read anyway."""

    @cached_property
    def description(self) -> str:
        """What roles are told it is for."""
        return " ".join((self.__doc__ or "").split())

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        return parameters_of(self.takes)

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """Nothing outside of the activation."""
        return "none"

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """See `Tool.action`."""
        return self.would(self.takes.model_validate(arguments))  # type: ignore[arg-type]

    async def call(self, arguments: Mapping[str, Any], situation: Situation) -> ToolResult:
        """See `Tool.call`."""
        return await self.do(self.takes.model_validate(arguments), situation)  # type: ignore[arg-type]

    @abstractmethod
    def would(self, given: A) -> Action:
        """What a call would do."""

    @abstractmethod
    async def do(self, given: A, situation: Situation) -> ToolResult:
        """Do it."""


@cache
def parameters_of(takes: type[Arguments]) -> dict[str, Any]:
    """The JSON Schema of arguments as roles are told it."""
    return _plain(takes.model_json_schema())


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of names: they tell a model nothing."""
    return {key: ({name: _plain(one) for name, one in value.items()} if key in ("properties", "$defs")
                  else _plain(value) if isinstance(value, dict)
                  else [_plain(one) if isinstance(one, dict) else one for one in value] if isinstance(value, list)
                  else value)
            for key, value in schema.items()
            if key not in ("title", "description") or (key == "description" and "properties" not in schema)}
