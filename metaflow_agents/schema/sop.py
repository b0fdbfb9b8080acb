"""What a person may write in `sops/*.yaml`, as frozen pydantic models: the SOP as a whole, what a run of it is given and tests.

The fields are the keys of the language; the tables of keys in `docs/reference/` are generated from their descriptions. Roles,
steps and artifacts have files of their own beside this one. A key of the language that this version does not build stands in
`NOT_BUILT` and is refused by name, never accepted and ignored.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.schema.artifact import Artifact
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.case import Case
from metaflow_agents.schema.endpoint import EndpointLimits, ModelSpec
from metaflow_agents.schema.faults import SchemaWritten
from metaflow_agents.schema.keywords import MARKS
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.role import Role
from metaflow_agents.schema.scalars import Calls, Expression, Name, Texts
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.step import Step, ToolChoice
from metaflow_agents.schema.tools import ApiSpec, PolicySpec, ServerSpec, ToolSpec

LANGUAGE_VERSIONS = (1,)

NOT_BUILT: dict[str, dict[str, str]] = {
    "sop": {
    },
    "role": {},
    "step": {},
    "foreach": {"stream": "a step reads what is whole; steps that follow one another item by item are one SOP, a `sop:` step"},
    "artifact": {},
    "memory": {},
    "recall": {},
}

INPUT_KEYS = ("type", "description", "default", "optional", "trusted", "exclude", "keep")
"""A mapping of these is an input; any other one is the schema of an input."""
PATHS = ("file", "folder")
"""Types of an input that no schema has: a person gives a path."""


class Input(Value):
    """What a run is given: a command-line option of the same name."""

    type: Any = Field("string", description="a schema, or `file` or `folder`")
    description: str = Field("", description="the help text of the option")
    default: Any = Field(None, description="the value where none is given")
    optional: bool = Field(
        False, strict=True, description="whether a run may begin without it; it is `null` then, or its `default`")
    trusted: bool | None = Field(
        None, strict=True, description="whether it may decide about actions; by default files and folders may not")
    exclude: Texts = Field((), description="of a folder: what is left out, as patterns of `.gitignore`")
    keep: Name | None = Field(None, description="an artifact: what the last successful run of this SOP left in it is the default")

    @property
    def required(self) -> bool:
        """Whether a run must be given it: it is not `optional`, and no `default` was written."""
        return not self.optional and "default" not in self.model_fields_set


class Progress(Value):
    """A role looks at the run as a whole at intervals, and lets it go on, replans it or stops it."""

    every: Calls = Field(description="after how many model calls it looks again: `10 calls`")
    goal: str = Field(min_length=1, description="what the run is after, in words")
    role: Name = Field(description="who looks")
    makes: Name | None = Field(
        None, description="a text artifact: what it says where it replans; the steps that want it fire again")
    replans: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(2, description="how often it may replan")


def _input(written: Any) -> Any:
    """`{type, description, default}`, `{type, minimum, description, default}`, or a schema alone."""
    if isinstance(written, Input) or is_whole_input(written):
        return written
    schema = schema_among_keys(written)
    if schema is None:
        return {"type": written}
    return {**{key: part for key, part in written.items() if key in INPUT_KEYS}, "type": schema}


def is_whole_input(written: object) -> bool:
    """Whether a mapping is an input with its keys, and not the schema of one: it has no other keys, or its type is that of no
    schema.
    """
    if not isinstance(written, dict) or "type" not in written:
        return False
    field = isinstance(written.get("optional"), str | dict | list)          # `{type: string, optional: boolean}`: two fields
    return written["type"] in PATHS or (set(written) <= set(INPUT_KEYS) and not field)


def schema_among_keys(written: Any) -> dict[str, Any] | None:
    """The schema that stands among the keys of an input, `{type: integer, minimum: 1, default: 2}`; None where none does."""
    if not isinstance(written, dict) or "type" not in written or is_whole_input(written) or not written.keys().isdisjoint(MARKS):
        return None
    schema = {key: part for key, part in written.items() if key not in INPUT_KEYS[1:]}
    try:
        fields = to_json_schema(schema).get("properties", {})
    except SchemaWritten:                   # read as the schema that it looks like, and told there
        return None
    return None if "type" in fields else schema


class Defaults(Value):
    """Keys that every step and every role has unless it says otherwise."""

    steps: dict[str, Any] = Field(default_factory=dict, description="any keys of a step")
    roles: dict[str, Any] = Field(default_factory=dict, description="any keys of a role")


class SOP(Value):
    """A standard operating procedure: a program whose instructions are steps."""

    sop: Name = Field(description="its name")
    language: int = Field(1, strict=True, description="version of this language")
    description: str = Field("", description="what it is for")
    inputs: dict[Name, Annotated[Input, BeforeValidator(_input)]] = Field(default_factory=dict, description="what a run is given")
    defaults: Defaults = Field(Defaults(), description="keys that every step and role has")
    roles: dict[Name, Role] = Field(
        default_factory=dict, description="who works: overrides of `roles/NAME.yaml`, or the whole role")
    artifacts: dict[Name, Artifact] = Field(default_factory=dict, description="what passes between them")
    steps: dict[Name, Step] = Field(min_length=1, description="who makes what from what")
    outputs: tuple[Name, ...] | None = Field(None, description="what the run is for; by default what nobody reads")
    success: Expression | None = Field(None, description="what the exit status means; by default that every output exists")
    tests: dict[Name, Case] = Field(default_factory=dict, description="what `sop test` runs")
    budget: Budget | None = Field(None, description="caps for the whole run")
    limits: EndpointLimits | None = Field(None, description="what each endpoint of the SOP's models allows")
    models: dict[Name, ModelSpec] = Field(default_factory=dict, description="names for models; `default` is everybody's")
    progress: Progress | None = Field(None, description="a role that looks at the run as a whole at intervals")
    policy: PolicySpec | None = Field(None, description="what roles may do; by default the preset `workspace`")
    secrets: tuple[Name, ...] = Field((), description="environment variables, each of which reaches the one tool that names it")
    tools: dict[Name, ToolSpec] = Field(default_factory=dict, description="tools that roles may use")
    mcp_servers: dict[Name, ServerSpec] = Field(default_factory=dict, alias="mcpServers", description="MCP servers by name")
    openapi: dict[Name, ApiSpec] = Field(default_factory=dict, description="services with an OpenAPI description, by name")

    @property
    def screens(self) -> tuple[str, ...]:
        """The screens that its policy names, as they are written."""
        return () if self.policy is None else self.policy.screen

    @property
    def tool_sources(self) -> dict[str, ToolSpec]:
        """Of the declared tools those that are sources, which installed packages add."""
        return {name: spec for name, spec in self.tools.items() if spec.source is not None}

    def tools_of(self, step: Step, role: str | None = None) -> tuple[str, ...]:
        """The tools that a role may use in a step, as they are written. By default that of the step itself; where it is worked
        out at run time which one works there, all that any of them has. Of a step that calls a tool itself: that tool.
        """
        if step.role is None:
            return () if step.tool is None else (step.tool,)
        if step.tools is not None and not isinstance(step.tools, ToolChoice):
            return step.tools               # else a choice among those of the role
        if role is not None or step.role in self.roles:
            return self.roles[role or step.role].tools
        return tuple(dict.fromkeys(tool for role in self.roles.values() for tool in role.tools))

    @property
    def remembers(self) -> bool:
        """Whether what roles do goes into the project's memory file: one of them, or of a SOP that inherits what they remember,
        recalls, reflects, or keeps lessons.
        """
        return any(step.inherits_memory for step in self.steps.values()) or any(
            (role.memory.recall, role.memory.reflect, role.memory.lessons) != (None, None, None) for role in self.roles.values())

    @property
    def apart(self) -> frozenset[str]:
        """The roles whose memories are this run's alone."""
        return frozenset(name for name, role in self.roles.items() if role.memory.over == "run")

    def recalled(self, name: str) -> bool:
        """Whether what a role remembers comes back to anybody's mind: its own, or that of one who recalls from all."""
        return any(other.memory.recall is not None and (other.memory.recall.from_ != "role" or self._one_memory(own, name))
                   for own, other in self.roles.items())

    def _one_memory(self, role: str, other: str) -> bool:
        """Whether two roles are one, or may share a memory."""
        return role == other or {role, other} <= {name for step in self.steps.values() if step.memory_of is not None
                                                  for name in ([step.role] if step.role in self.roles else self.roles)}

    def rates(self, name: str) -> bool:
        """Whether a role's model is asked how important each of its memories is: it counts for the role itself, or for one that
        recalls what others remember.
        """
        return self.roles[name].memory.reflect is not None or any(
            other.memory.recall is not None and other.memory.recall.importance > 0
            and (other.memory.recall.from_ != "role" or self._one_memory(own, name)) for own, other in self.roles.items())

    @field_validator("language")
    @classmethod
    def _known(cls, version: int) -> int:
        if version not in LANGUAGE_VERSIONS:
            raise PydanticCustomError("language", "language {v} is unknown; supported: 1", {"v": version})
        return version


class Configuration(Value):
    """What a person sets for all SOPs, in `sop/config.yaml` of their configuration folder; a SOP goes before it."""

    models: dict[Name, ModelSpec] = Field(default_factory=dict, description="names for models; `default` is everybody's")
    limits: EndpointLimits | None = Field(None, description="what each endpoint allows, where the SOP says nothing of it")
