"""Sources of tools that installed packages add (entry points `metaflow_agents.tools`), as SOPs declare them under `tools`.

What such a package gives is treated as a server's: its tools are called `NAME.TOOL`, its schemas are looked at before a model
sees them, what comes of a call is untrusted, without the SOP's secrets, and bounded, and the policy is asked about
`call(NAME.TOOL)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from metaflow_agents import plugins
from metaflow_agents.errors import AttemptFailed, RunError, UsageError, raised
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.model import Value, canonical
from metaflow_agents.schema.tools import Effect, ToolSpec
from metaflow_agents.threads.blocking import Threads, called
from metaflow_agents.tools.functions import LONGEST, THREADS
from metaflow_agents.tools.mcp_listing import Listing, MCPListing
from metaflow_agents.tools.port import Setting, Situation, Tool, ToolResult
from metaflow_agents.tools.secrets import every_text, filled

P = TypeVar("P", bound=Value)


@dataclass(frozen=True, slots=True)
class Described:
    """A tool of a source, as roles are told of it. `name`: letters, digits and `_ - . /`; `parameters`: the JSON Schema of its
    arguments, an object. `effect`: what a second call would do, where the SOP says nothing of it (`effects`).
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    effect: Effect = "once"


class ToolSource(ABC, Generic[P]):
    """Where tools come from. Made once for a run, with what the SOP gives under `with`; opened at the first use of a tool.

    `SPEC` is what `with` may hold, a subclass of `schema.model.Value`; in its texts each `${NAME}` is the secret of that name,
    which the SOP declares. A method that is not async runs in a thread. What one raises fails the one call (`call`), or stops the
    run (`open`, `tools`), and its words are told to roles and people: secrets are blotted out of them.
    """

    SPEC: ClassVar[type[Value]] = Value

    def __init__(self, given: P) -> None:
        self.given = given

    def open(self) -> Any:
        """Starts what it needs. By default nothing."""

    def close(self) -> Any:
        """Ends all that `open` and calls started. By default nothing. Called once, at the run's end, where it was opened."""

    @abstractmethod
    def tools(self) -> Any:
        """Its tools, a list of `Described`. Asked for once a run, after `open`."""

    @abstractmethod
    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What a tool gives: a text, or JSON. The arguments fit its schema. May be cancelled while it is awaited."""


class PluginSource:
    """Fits `Source`: what an installed package adds, under the name that the SOP gives it."""

    def __init__(self, name: str, spec: ToolSpec, setting: Setting) -> None:
        """Raises UsageError where the package is not installed, can't be loaded, or does not take what `with` gives."""
        self._name, self._spec, self._setting = name, spec, setting
        plugin = plugins.offered("tools", spec.source or "", "source of tools")
        kind = plugin.load()
        if not (isinstance(kind, type) and issubclass(kind, ToolSource)):
            raise UsageError(f"`{plugin.name}` (tools) of {plugin.maker} is no subclass of `{ToolSource.__module__}.ToolSource`; "
                             f"fix or uninstall {plugin.distribution}")
        self._maker, self._threads = plugin.maker, Threads(THREADS, f"tools-{name}")
        try:
            self._source: ToolSource[Any] = kind(kind.SPEC.model_validate(
                every_text(spec.with_, lambda text: filled(text, setting.secret))))
        except ValidationError as error:
            told = "; ".join(f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}"
                             for one in error.errors(include_url=False, include_context=False, include_input=False))
            raise UsageError(f"the tools `{name}` ({self._maker}): `with` does not fit: {told}") from None
        self._effects: dict[str, Effect] = {}

    @property
    def name(self) -> str:
        """Its name in the SOP."""
        return self._name

    def opened(self) -> AbstractAsyncContextManager[None]:
        """See `Source.opened`."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        await self._asked("open")
        try:
            yield
        finally:
            await self._asked("close")

    async def tools(self) -> list[Tool]:
        """See `Source.tools`. Tools that can't be used (their names, their schemas) are left out."""
        offered = await self._asked("tools")
        if not (isinstance(offered, Sequence) and all(isinstance(one, Described) for one in offered)):
            raise RunError(f"the tools `{self._name}` ({self._maker}): `tools` gave no list of `Described`")
        listing = Listing()
        for one in offered:
            listing.add(every_text({"name": one.name, "description": one.description, "inputSchema": dict(one.parameters)},
                                   self._setting.masked))
        listing.settle()
        own = {one.name: one.effect for one in offered}
        return [PluginTool(self, one, self._spec.effects.get(one.name) or own[one.name]) for one in listing.kept.values()]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """What a tool of it gives. What goes wrong is a result that names the source."""
        outside = f"from {self._maker}"
        try:
            given = await called(f"{self._name}.{tool}", self._threads, self._source.call, tool, dict(arguments))
            text = self._setting.masked(given if isinstance(given, str) else canonical(given).decode())
        except (AttemptFailed, RunError) as error:
            return ToolResult(self._setting.masked(str(error)), error=True, untrusted=outside, unknown=True)
        except Exception as error:          # somebody else's code: whatever it raises is told to the role
            return ToolResult(self._setting.masked(f"{self._name}.{tool} raised {raised(error)}"), error=True, untrusted=outside,
                          unknown=True)
        lacks = f"it is longer than {LONGEST:,} characters" if len(text) > LONGEST else ""
        return ToolResult(text[:LONGEST], untrusted=outside, lacks=lacks)

    async def _asked(self, method: str) -> Any:
        try:
            return await called(f"{self._name}.{method}", self._threads, getattr(self._source, method))
        except (AttemptFailed, RunError) as error:
            told = str(error)
        except Exception as error:          # somebody else's code
            told = f"{method}: {raised(error)}"
        raise RunError(self._setting.masked(f"the tools `{self._name}` ({self._maker}): {told}"))


@dataclass(frozen=True, slots=True)
class PluginTool:
    """Fits `Tool`: a tool of a source."""

    source: PluginSource
    offered: MCPListing
    does: Effect

    @property
    def name(self) -> str:
        """`NAME.TOOL`."""
        return f"{self.source.name}.{self.offered.name}"

    @property
    def description(self) -> str:
        """The package's own words."""
        return self.offered.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        return self.offered.parameters

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """As the SOP says it under `effects`; else as the package does."""
        return self.does

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """`call(NAME.TOOL)`."""
        return Action("call", self.name)

    async def call(self, arguments: Mapping[str, Any], situation: Situation) -> ToolResult:
        """See `Tool.call`."""
        return await self.source.call(self.offered.name, arguments)
