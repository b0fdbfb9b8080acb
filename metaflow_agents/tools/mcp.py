"""MCP servers (https://modelcontextprotocol.io) as sources of tools, over the pipes of a process or streamable HTTP.

A server that a SOP names is trusted to run, and so are the words in which it describes its tools; what its tools give is not.
Its list of tools is read once a run: that it changed meanwhile is not heard. Its own word on what a tool does (`readOnlyHint`)
is not believed: `effects` says it, and everything else is taken to act (`once`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metaflow_agents.errors import RunError, UsageError
from metaflow_agents.policy.action import Action
from metaflow_agents.schema.tools import Effect, ServerSpec
from metaflow_agents.tools.mcp_listing import Listing, MCPListing
from metaflow_agents.tools.port import Setting, Situation, Tool, ToolResult
from metaflow_agents.tools.secrets import every_text, filled

if TYPE_CHECKING:
    from metaflow_agents.tools.mcp_connection import Connection, Transport

CALL_SECONDS = 60.0
_STARTS = 2                         # a server that died is started once more, and not again


class McpServer:
    """One server of a SOP. It starts at its first use, which may be many at once, and ends with `opened`."""

    def __init__(self, name: str, spec: ServerSpec, setting: Setting) -> None:
        """Raises UsageError where it is not said how to reach it, or twice."""
        if (spec.command is None) == (spec.url is None):
            raise UsageError(f"the MCP server {name} needs either `command` (a program) or `url` (where it is served)")
        self._name, self._spec, self._setting = name, spec, setting
        self._seconds = CALL_SECONDS if spec.timeout is None else spec.timeout
        self._connection: Connection | None = None
        self._starts, self._open = 0, False
        self._told = False                                      # whether somebody heard that the connection is over
        self._listing, self._listed = Listing(), asyncio.Lock()
        self._tools: list[Tool] | None = None

    @property
    def name(self) -> str:
        """Its name in the SOP."""
        return self._name

    @property
    def refused(self) -> Mapping[str, str]:
        """Tools that it offers and roles don't get: name → why. Known once `tools` has been asked."""
        return self._listing.refused

    def opened(self) -> AbstractAsyncContextManager[None]:
        """For the time of a run. Leaving it ends the server and all it started, within seconds, whatever it does."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        self._open = True
        try:
            yield
        finally:
            self._open = False
            if self._connection is not None:
                await self._connection.close()

    async def tools(self) -> list[Tool]:
        """Its tools, called `SERVER.TOOL`, in its order; those that can't be used are left out, `refused` says why.

        Raises RunError where it can't be asked, UsageError where a secret that it needs is not set.
        """
        async with self._listed:
            if self._tools is None:
                self._listing = Listing()
                try:
                    await self._connected().list_tools(self._listing.settle)
                except _failures() as failed:
                    raise RunError(self._failed(failed, listing=True)) from None
                self._tools = [McpTool(self, offered, self._spec.effect_of(offered.name))
                               for offered in self._listing.kept.values()]
            return list(self._tools)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """What a tool of it gives, as the server calls the tool. What goes wrong is a result that names the server."""
        from metaflow_agents.tools.mcp_connection import Gone, TooSlow
        from metaflow_agents.tools.mcp_result import content_of, text_of

        outside = f"from the MCP server {self._name}"
        try:
            answer = await self._connected().call(tool, arguments, self._seconds)
        except _failures() as failed:
            unknown = isinstance(failed, TooSlow) or (isinstance(failed, Gone) and failed.under_way)
            return ToolResult(self._failed(failed), error=True, untrusted=outside, unknown=unknown)
        content, lacks = content_of(answer, self._setting.masked)
        return ToolResult(text_of(answer, self._setting.masked), error=answer.is_error, untrusted=outside, content=content,
                      lacks=lacks)

    def _connected(self) -> Connection:
        """The connection, begun where there is none; one that ended is begun again once somebody was told that it did."""
        from metaflow_agents.tools.mcp_connection import Connection

        if not self._open:
            raise RuntimeError(f"the MCP server {self._name} is used outside of `opened`")
        fresh = self._connection is None or (self._connection.over and self._told and self._starts < _STARTS)
        if fresh:
            transport = self._transport()
            self._starts, self._told = self._starts + 1, False
            self._connection = Connection(transport, self._sift, name=self._name, patience=max(self._seconds, CALL_SECONDS))
        assert self._connection is not None
        return self._connection

    def _transport(self) -> Transport:
        spec = self._spec
        if spec.command is None:
            from metaflow_agents.tools.mcp_http import HttpTransport

            return HttpTransport(str(spec.url), self._filled(spec.headers))
        from metaflow_agents.tools.mcp_stdio import StdioTransport

        environment = {**self._setting.environment, **self._filled(spec.env)}
        return StdioTransport((spec.command, *spec.args), self._setting.folder / (spec.cwd or "."), environment)

    def _sift(self, tool: Any) -> dict[str, Any] | None:
        """What is left of a tool for the package that reads the list; None: it is refused."""
        try:
            tool = every_text(tool, self._setting.masked)       # first of all: half of a secret, where it is cut, is too much
        except RecursionError:
            tool = None                                         # nested without end: refused as what is no object
        offered = self._listing.add(tool)
        if offered is None:
            return None
        return {"name": offered.name, "description": offered.description, "inputSchema": dict(offered.parameters)}

    def _filled(self, written: Mapping[str, str]) -> dict[str, str]:
        return {name: filled(text, self._setting.secret) for name, text in written.items()}

    def _failed(self, failed: Exception, *, listing: bool = False) -> str:
        """A failure in words, which name the server and say what a next call does: none follows where tools are `listing`."""
        from metaflow_agents.tools.mcp_connection import Gone, TooSlow

        told = [f"the MCP server {self._name}: {failed}."]
        if isinstance(failed, TooSlow) or (isinstance(failed, Gone) and failed.under_way):
            told.append("Whether the call had its effect is not known.")
        if isinstance(failed, Gone):
            self._told = True
            more = self._starts < _STARTS
            if not listing:
                told.append("The next call starts it once more." if more else "It is not started again in this run.")
            if failed.said:
                told.append(f"It said last:\n{failed.said}")
        return self._setting.masked(" ".join(told))


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server."""

    server: McpServer
    offered: MCPListing
    does: Effect

    @property
    def name(self) -> str:
        """`SERVER.TOOL`."""
        return f"{self.server.name}.{self.offered.name}"

    @property
    def description(self) -> str:
        """The server's own words."""
        return self.offered.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        return self.offered.parameters

    def effect(self, arguments: Mapping[str, Any]) -> Effect:
        """As the SOP says it under `effects`; else `once`."""
        return self.does

    def action(self, arguments: Mapping[str, Any]) -> Action:
        """`mcp(SERVER.TOOL)`."""
        return Action("mcp", self.name)

    async def call(self, arguments: Mapping[str, Any], situation: Situation) -> ToolResult:
        """See `Tool.call`."""
        return await self.server.call(self.offered.name, arguments)


def _failures() -> tuple[type[Exception], ...]:
    from metaflow_agents.tools.mcp_connection import Gone, Refused, TooSlow

    return Gone, Refused, TooSlow
