"""The tools of a run: built-in ones that its roles name, functions, servers and services that the SOP declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from metaflow_agents.runtime.needs import tools_of
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.settings import Settings
from metaflow_agents.tools.port import Setting, Tool, ToolSource
from metaflow_agents.tools.secrets import Secrets
from metaflow_agents.tools.toolbox import Toolbox


def toolbox(program: Program, folder: Path, sandbox: Sandbox, settings: Settings, secrets: Secrets,
            load: Callable[[str], Callable[..., Any]], *, dry: bool = False) -> Toolbox:
    """The tools that the roles of a SOP may use. `folder` is the SOP's; `dry`: those of this package alone, which nobody calls:
    nothing of the user's is imported or started. Raises UsageError for what can't be made.
    """
    sop = program.sop
    names = tools_of(sop)
    if not names:
        return Toolbox()
    # Most SOPs have no tools, and these bring what confines commands, and what speaks to the network, with them.
    from metaflow_agents.policy.policy import Policy
    from metaflow_agents.tools.commands import Python, RunArguments
    from metaflow_agents.tools.files import file_tools
    from metaflow_agents.tools.map import MapTool
    from metaflow_agents.tools.web import Fetch, Web

    setting = Setting(folder=folder, secret=secrets.value, environment=settings.command_environment, masked=secrets.masked)
    headers = sop.tools["fetch"].headers if "fetch" in sop.tools else {}
    web = Web(headers, granted_literally(sop), owner=sandbox.owner, filled=secrets.filled)
    own: list[Tool] = [tool for tool in (*file_tools(), MapTool(), Python(sandbox), Fetch(web)) if tool.name in names]
    if "packages" in names:
        from metaflow_agents.packages.environments import Environments
        from metaflow_agents.tools.packages import Packages
        own.append(Packages(Environments(settings.packages, settings.pip_environment)))
    if "run" in names:
        own.append(RunArguments(sandbox, web if Policy(sop.policy).ever("connect") else None))
    if dry:
        return Toolbox(own)
    own += _functions(sop, names, setting, load)
    return Toolbox(own, _sources(program, names, setting))


def _functions(sop: SOP, names: Iterable[str], setting: Setting, load: Callable[[str], Callable[..., Any]]) -> Iterator[Tool]:
    declared = {name: spec for name, spec in sop.tools.items() if spec.python is not None and name in names}
    if declared:
        from metaflow_agents.tools.functions import FunctionTool
        for name, spec in declared.items():
            yield FunctionTool(name, spec, setting, load)


def _sources(program: Program, names: Iterable[str], setting: Setting) -> Iterator[ToolSource]:
    wanted = {name.partition(".")[0] for name in names}
    for name, spec in program.sop.tool_sources.items():
        if name in wanted:
            from metaflow_agents.tools.plugin_source import PluginSource
            yield PluginSource(name, spec, setting)
    for name, server in program.sop.mcp_servers.items():
        if name in wanted:
            from metaflow_agents.tools.mcp import McpServer
            yield McpServer(name, server, setting)
    for name, service in program.sop.openapi.items():
        if name in wanted:
            from metaflow_agents.tools.openapi import OpenApiService
            yield OpenApiService(name, service, program.documents[name], setting)


def granted_literally(sop: SOP) -> frozenset[str]:
    """`host:port` of the places that a rule of the SOP allows or asks about by address or as `localhost`: they may be private."""
    from metaflow_agents.policy.place_patterns import literal
    from metaflow_agents.policy.rules import parse_rule

    rules = () if sop.policy is None else (*sop.policy.allow, *sop.policy.ask)
    places = (literal(parse_rule(rule).pattern) for rule in rules)
    return frozenset(place.authority for place in places if place is not None)
