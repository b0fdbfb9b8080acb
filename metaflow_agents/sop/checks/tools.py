"""Tools: those that roles name exist, and those that the SOP declares can be had. Nothing is started, imported or asked."""

from __future__ import annotations

from metaflow_agents.errors import FetchRefused, did_you_mean, nearest
from metaflow_agents.network import hosts
from metaflow_agents.policy.judged import BUILT_IN, judged, tool_names
from metaflow_agents.schema.tools import ServerSpec, ToolSpec
from metaflow_agents.schema.trusting import NAMESPACES
from metaflow_agents.sop.checks.calls import check_function
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.installed import parameters, spec_of

OF_THE_LOOP = ("more", "find_tools", "ask_role")
"""Tools that roles get without naming them: where results are long, tools many, or the step names whom it talks to."""
_HABITS = {"bash": "run", "shell": "run", "terminal": "run", "exec": "run", "grep": "search", "glob": "list", "ls": "list",
           "cat": "read", "multiedit": "edit", "webfetch": "fetch", "http": "fetch", "task": "start_role", "agent": "start_role"}
"""What other programs call the built-in tools."""
_OF_COMMANDS = ("args", "env", "cwd")
_DECLARED = (("tools", "tools"), ("mcp_servers", "mcpServers"), ("openapi", "openapi"))


def check_tools(c: Context) -> None:
    """What roles and steps may use, and what the SOP declares."""
    for name, role in c.sop.roles.items():
        _named(c, ("roles", name, "tools"), role.tools, [other for other in c.sop.roles if other != name])
    for name, step in c.sop.steps.items():
        if step.role is not None:
            _named(c, ("steps", name, "tools"), step.named_tools, [other for other in c.sop.roles if other != step.role])
    for name, tool in c.sop.tools.items():
        _tool(c, name, tool)
    for name, server in c.sop.mcp_servers.items():
        _server(c, ("mcpServers", name), name, server)
    for name, service in c.sop.openapi.items():
        if service.server is not None:
            _url(c, ("openapi", name, "server"), service.server)
    _twice(c)
    _unused(c)


def _named(c: Context, where: Place, tools: tuple[str, ...], others: list[str]) -> None:
    for index, tool in enumerate(tools):
        place = c.entry(*where, index)
        if judged(tool, c.sop) is None:
            unknown(c, place, tool)
        elif tool == "packages":
            c.say("tool-step", place, "a role can't call `packages`: what is installed is decided by a step of its own",
                  "write a step `{tool: packages, inputs: {requirements: EXPRESSION}, makes: LOCK}`, and `packages: LOCK` where "
                  "commands run")
        elif tool == "start_role" and not others:
            c.say("start-role-alone", place, "`start_role` hands work to another role, and the SOP has no other",
                  "declare one under `roles`, or remove the tool")


def unknown(c: Context, place: Place, tool: str) -> None:
    """Tells that a name is no tool of the SOP, and which was meant."""
    server = nearest(tool.partition(".")[0], (*c.sop.tool_sources, *c.sop.mcp_servers, *c.sop.openapi)) if "." in tool else None
    mend = f"did you mean `{server}.{tool.partition('.')[2]}`? there is: {', '.join(tool_names(c.sop))}" if server else (
        did_you_mean(tool, tool_names(c.sop), limit=20))
    habit = _HABITS.get(tool.casefold())
    mend = "write `talks_to: [ROLE]` at the step" if tool == "ask_role" else mend
    c.say("unknown-tool", place, f"`{tool}` is no tool of this SOP", f"here it is called `{habit}`" if habit else mend)


def _tool(c: Context, name: str, tool: ToolSpec) -> None:
    where: Place = ("tools", name)
    for key in ("python", "source", "secrets"):
        if name in BUILT_IN and key in tool.model_fields_set:
            c.say("tool-form", (*where, key), f"`{name}` is a built-in tool, and takes no `{key}`",
                  "give your own tool another name", key=True)
    if tool.headers and name != "fetch":
        c.say("tool-form", (*where, "headers"), f"`headers` belong to `fetch`, and `{name}` is another tool",
              "write them under `fetch`, or hand a key to the function with `secrets`", key=True)
    for origin in tool.headers if name == "fetch" else ():
        _origin(c, (*where, "headers", origin), origin)
    if name in BUILT_IN:
        return
    if tool.source is not None:
        _source(c, where, name, tool)
        return
    for key in ("with", "effects"):
        if getattr(tool, "with_" if key == "with" else key):
            c.say("tool-form", (*where, key), f"`{key}` belongs to a `source`, and `{name}` is no such tool",
                  "remove it" if key == "with" else "write `effect`", key=True)
    if tool.python is None:
        c.say("tool-form", where, f"the tool `{name}` has no function",
              f"add `python: package.module:function`, or `source: NAME`; built in are {', '.join(BUILT_IN)}", key=True)
        return
    signature = check_function(c, (*where, "python"), tool.python)
    for parameter in tool.secrets if signature is not None and not signature.takes_any else ():
        known = (*signature.required, *signature.optional) if signature else ()
        if parameter not in known:
            c.say("call-argument", (*where, "secrets", parameter), f"`{tool.python}` has no parameter `{parameter}`",
                  did_you_mean(parameter, known) if known else "it takes none", key=True)


def _source(c: Context, where: Place, name: str, tool: ToolSpec) -> None:
    """A source of tools that an installed package adds."""
    for key in ("python", "secrets", "effect", "description"):
        if key in tool.model_fields_set:
            c.say("tool-form", (*where, key), f"`{key}` is of a function, and `{name}` is a source of tools",
                  "write `${NAME}` in `with`" if key == "secrets" else "write `effects: {TOOL: …}`" if key == "effect" else
                  "remove it", key=True)
    at: Place = (*where, "with") if c.has(*where, "with") else (*where, "source")
    spec = spec_of(c, (*where, "source"), "tools", tool.source or "", "source of tools")
    if spec is not None:
        parameters(c, at, f"source: {tool.source}", tool.with_, spec)


def _server(c: Context, where: Place, name: str, server: ServerSpec) -> None:
    if (server.command is None) == (server.url is None):
        has = "neither `command` nor `url`" if server.command is None else "`command` and `url`"
        c.say("server-form", where, f"the server `{name}` has {has}",
              "write `command: PROGRAM` (with `args`) for one to be started here, or `url: https://…` for one elsewhere",
              key=True)
        return
    started = server.command is not None
    if server.type is not None and (server.type == "stdio") != started:
        c.say("server-form", (*where, "type"), f"`type: {server.type}` does not go with `{'command' if started else 'url'}`",
              f"remove it, or write `type: {'stdio' if started else 'http'}`")
    for key in ("headers",) if started else _OF_COMMANDS:
        if key in server.model_fields_set:
            c.say("server-form", (*where, key), f"`{key}` does not go with `{'command' if started else 'url'}`",
                  "remove it" if started else "remove it; keys go into `headers`", key=True)
    for header, value in server.headers.items():
        if any(ord(sign) < 32 or ord(sign) == 127 for sign in header + value):
            c.say("server-form", (*where, "headers", header), f"the header `{header}` holds a control character",
                  "remove it: a header is one line", key=True)
    if server.url is not None:
        _url(c, (*where, "url"), server.url)


def _url(c: Context, where: Place, url: str) -> None:
    try:
        hosts.parse(url)
    except FetchRefused as error:
        c.say("server-form", where, str(error), "write it like `https://api.example.com/v1`")


def _origin(c: Context, where: Place, origin: str) -> None:
    try:
        place = hosts.parse(origin)
    except FetchRefused as error:
        c.say("tool-form", where, str(error), "write an origin like `https://api.example.com`", key=True)
        return
    if place.path != "/" or place.query:
        c.say("tool-form", where, f"`{origin}` is more than an origin: headers are sent with every path of a host",
              f"write `{place.origin}`", key=True)


def _twice(c: Context) -> None:
    """One name, one tool: `github` may not be a server and a service, nor a server be called like a built-in tool."""
    seen: dict[str, str] = dict.fromkeys((*BUILT_IN, *OF_THE_LOOP), "a built-in tool")
    for attribute, key in _DECLARED:
        for name in getattr(c.sop, attribute):
            if key != "tools" and name in NAMESPACES:       # `input.x` under `trusts` would be its tool `x`, too
                c.say("tool-twice", (key, name), f"`{name}` is a namespace under `trusts` already",
                      "give it another name", key=True)
            if name in seen and not (key == "tools" and name in BUILT_IN):
                c.say("tool-twice", (key, name), f"`{name}` is {seen[name]} already", "give one of them another name", key=True)
            seen.setdefault(name, {"tools": "a tool", "mcpServers": "an MCP server", "openapi": "a service"}[key])


def _unused(c: Context) -> None:
    used = {tool for role in c.sop.roles.values() for tool in role.tools}
    used |= {tool for step in c.sop.steps.values() for tool in (*step.named_tools, *([step.tool] if step.tool else ()))}
    servers = {tool.partition(".")[0] for tool in used}
    used |= servers | {nearest(name, (*c.sop.tools, *c.sop.mcp_servers, *c.sop.openapi)) or name for name in servers}
    for attribute, key in _DECLARED:
        for name in getattr(c.sop, attribute):
            if name not in used:
                told = f"{name}.*" if key != "tools" or name in c.sop.tool_sources else name
                c.say("unused-tool", (key, name), f"no role uses `{name}`",
                      f"add `{told}` to the `tools` of a role, or remove it", key=True)
