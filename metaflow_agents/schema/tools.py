"""What a person writes of that with which roles act, and of what they may do: tools, servers, services, the policy."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field

from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Seconds, Texts

Effect = Literal["none", "idempotent", "once"]
"""What doing it a second time does: nothing was done at all, the same again, or a second thing."""


class PolicySpec(Value):
    """What roles may do: deny beats ask beats allow, and what neither the preset nor a rule names is denied."""

    preset: Literal["read-only", "workspace", "danger-full-access"] = Field(
        "workspace", description="what holds where no rule says otherwise")
    allow: Texts = Field((), description="rules such as `write(src/**)`, `run(python -m pytest *)`, `mcp(github.search_*)`")
    ask: Texts = Field((), description="rules whose actions a person is asked about")
    deny: Texts = Field((), description="rules whose actions never happen")
    screen: Texts = Field((), description="of the SOP: names of screens that packages add, and YAML files of names (`own.yaml`); "
                                          "what one of them finds in a text ends the run")


def is_file(screen: str) -> bool:
    """Whether what a policy names as a screen is a file beside the SOP, and not what a package adds."""
    return screen.lower().endswith((".yaml", ".yml"))


class ToolSpec(Value):
    """A tool that a SOP declares, or what it sets of a built-in one."""

    python: str | None = Field(None, description="a Python function, `package.module:function`: its signature is the schema")
    source: str | None = Field(
        None, description="a source of tools that an installed package adds; they are called `NAME.TOOL`")
    with_: dict[str, Any] = Field(
        default_factory=dict, alias="with", description="of a `source`: what it takes; `${NAME}` in texts is a secret")
    effects: dict[str, Effect] = Field(
        default_factory=dict, description="of a `source`: tool → `none`, `idempotent` or `once`; by default as it says itself")
    description: str | None = Field(None, description="what roles are told it is for; by default its docstring")
    effect: Effect | None = Field(None, description="`none`, `idempotent` or `once`, which is what is taken for granted")
    secrets: dict[str, str] = Field(
        default_factory=dict, description="parameter → secret: filled in when it is called, and no part of what roles see")
    headers: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="of `fetch`: origin → headers, `${NAME}` in them being a secret")


class ServerSpec(Value):
    """An MCP server, in the form of the `mcpServers` that people have in their configuration."""

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = Field(
        None, description="by default what `command` or `url` says")
    command: str | None = Field(None, description="a program that speaks MCP over its standard input and output")
    args: Texts = Field((), description="its arguments")
    env: dict[str, str] = Field(default_factory=dict, description="its environment; `${NAME}` is a secret")
    cwd: str | None = Field(None, description="the folder that it runs in; by default that of the SOP")
    url: str | None = Field(None, description="where it is served over streamable HTTP")
    headers: dict[str, str] = Field(default_factory=dict, description="sent with every request; `${NAME}` is a secret")
    timeout: Seconds | None = Field(None, description="longest time of one call; by default 1m")
    effects: dict[str, Effect] = Field(default_factory=dict, description="tool (or pattern) → `none`, `idempotent`, `once`")

    def effect_of(self, tool: str) -> Effect:
        """What `effects` say of a tool: under its name, else under the first pattern that means it, else `once`."""
        meaning = (tool, *(pattern for pattern in self.effects if fnmatchcase(tool, pattern)))
        return next((self.effects[each] for each in meaning if each in self.effects), "once")


class ApiSpec(Value):
    """A service with an OpenAPI description, whose operations become tools."""

    spec: str = Field(description="file of its description, JSON or YAML, OpenAPI 3.0 or 3.1")
    server: str | None = Field(None, description="base URL; by default the description's first server")
    operations: Texts = Field(("*",), description="patterns of operation ids, or of `METHOD /path`: which become tools")
    headers: dict[str, str] = Field(default_factory=dict, description="sent with every request; `${NAME}` is a secret")
    timeout: Seconds | None = Field(None, description="longest time of one call; by default 1m")
    effects: dict[str, Effect] = Field(
        default_factory=dict, description="operation (or pattern) → `none`, `idempotent`, `once`; by default as its method says")
