"""A task given to the one of several experts whose description fits it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.schema.faults import SchemaWritten
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.strategies.base import TYPED_CALLS, RoleName, StrategySpec


class Expert(Value):
    """One role that a task may be given to."""

    about: str = Field("", description="what it is for, as it is chosen by; by default its role's profile and goal")
    takes: dict[str, Any] | None = Field(
        None, description="the arguments that it takes, in the shorthand of schemas: taken from the task and checked")

    @field_validator("takes")
    @classmethod
    def _sound(cls, takes: dict[str, Any] | None) -> dict[str, Any] | None:
        if takes is None:
            return None
        try:
            schema = to_json_schema(takes)
        except SchemaWritten as wrong:
            told = "; ".join(f"{fault.message}: {fault.mend}" for fault in wrong.faults)
            raise PydanticCustomError("strategy", "{told}", {"told": f"`takes` is no schema: {told}"}) from None
        if schema.get("type") != "object":
            raise PydanticCustomError("strategy", "`takes` has to name its arguments, as in `{expression: string}`")
        return takes


class Route(StrategySpec):
    """One of several experts is chosen by their descriptions, given its arguments, and does the task; its answer is taken."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {"choose": ("experts", "fallback"), "extract": ("expert", "about"),
                                                     "work": ("arguments", "output_format")}

    experts: Annotated[dict[RoleName, Expert], Field(min_length=1)] = Field(
        description="role → `{about, takes}`: who there is, what each is for, what it takes")
    fallback: RoleName | None = Field(
        None, description="a role that does what is for none of them, or what does not give what the chosen one takes")

    @model_validator(mode="after")
    def _a_choice(self) -> Route:
        if len({*self.experts, self.fallback} - {None}) < 2:
            raise PydanticCustomError("strategy", "there is one expert and nothing to choose: name another, or a `fallback`")
        return self

    def calls(self, answer: int) -> int | None:
        """The choice, the arguments where some expert takes any, and the expert's answer."""
        extracted = any(expert.takes is not None for expert in self.experts.values())
        return TYPED_CALLS + (TYPED_CALLS if extracted else 0) + answer
