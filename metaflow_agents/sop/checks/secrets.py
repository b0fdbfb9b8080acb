"""Secrets: declared, used, and each by one tool alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.steps import texts_in

NO_SECRETS = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "LANG", "TERM", "TMPDIR", "HOSTNAME", "SOP_MODEL")
"""Variables that say nothing secret: to redact their values would redact words."""
OWN_KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_NAMED = re.compile(r"\$\{([^{}]*)\}")


def check_secrets(c: Context) -> None:
    """Every `${NAME}` and every secret of a function's parameters."""
    owners: dict[str, str] = {}
    for owner, name, where in _uses(c):
        if name not in c.sop.secrets:
            declared = (f"{did_you_mean(name, c.sop.secrets)}; or add it to `secrets`" if c.sop.secrets else
                        f"declare it: `secrets: [{name}]`")
            c.say("unknown-secret", where, f"`{name}` is no secret of this SOP", declared)
            name = nearest(name, c.sop.secrets) or name
        elif owners.get(name, owner) != owner:
            c.say("secret-shared", where,
                  f"the secret `{name}` is given to {owners[name]} and to {owner}: a secret reaches one tool",
                  "name another secret here, so that each of the two can be taken back alone")
        owners.setdefault(name, owner)
    for index, name in enumerate(c.sop.secrets):
        if name in NO_SECRETS or name in OWN_KEYS:
            why = "is no secret" if name in NO_SECRETS else "is of your own endpoint, and no SOP hands it on"
            c.say("secret-name", c.entry("secrets", index), f"the variable `{name}` {why}",
                  "declare a variable of another name, and set it for this SOP alone")
        if name not in owners:
            c.say("unused-secret", c.entry("secrets", index), f"nothing is given the secret `{name}`",
                  f"write `${{{name}}}` in the `env`, `headers` or `with` of who needs it, or remove it")
    _misplaced(c)


def _uses(c: Context) -> Iterator[tuple[str, str, Place]]:
    """Who is given which secret, and where that is written."""
    for name, tool in c.sop.tools.items():
        for parameter, secret in tool.secrets.items():
            yield f"the tool `{name}`", secret, ("tools", name, "secrets", parameter)
        for where, text in texts_in(tool.with_, ("tools", name, "with")):
            yield from ((f"the tool `{name}`", secret, where) for secret in _NAMED.findall(text))
        for origin, headers in tool.headers.items():
            yield from _filled(f"the tool `{name}`", headers, ("tools", name, "headers", origin))
    for name, server in c.sop.mcp_servers.items():
        yield from _filled(f"the server `{name}`", server.env, ("mcpServers", name, "env"))
        yield from _filled(f"the server `{name}`", server.headers, ("mcpServers", name, "headers"))
    for name, service in c.sop.openapi.items():
        yield from _filled(f"the service `{name}`", service.headers, ("openapi", name, "headers"))


def _filled(owner: str, texts: dict[str, str], where: Place) -> Iterator[tuple[str, str, Place]]:
    for key, text in texts.items():
        for name in _NAMED.findall(text):
            yield owner, name, (*where, key)


def _misplaced(c: Context) -> None:
    """Arguments and addresses stand in lists of processes and in logs: nothing is filled in there."""
    for name, server in c.sop.mcp_servers.items():
        places: list[tuple[Place, str | None]] = [
            (("mcpServers", name, key), getattr(server, key)) for key in ("command", "cwd", "url")]
        places += [(c.entry("mcpServers", name, "args", index), text) for index, text in enumerate(server.args)]
        for where, text in places:
            for secret in _NAMED.findall(text or ""):
                c.say("secret-misplaced", where,
                      f"`${{{secret}}}` is replaced under `env` and `headers` alone: what stands here "
                      "is seen by every process of the machine", "hand it over in `env` or `headers`")
