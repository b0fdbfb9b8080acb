"""Rules of a policy as people write them: `verb`, or `verb(pattern)`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.policy.action import VERBS, Verb
from metaflow_agents.policy.command_patterns import CommandPattern
from metaflow_agents.policy.package_patterns import PackagePattern
from metaflow_agents.policy.patterns import Everything, NamePattern, PathPattern, Pattern, RuleWritten, VerbUnknown
from metaflow_agents.policy.place_patterns import HostPattern, PlacePattern

EXAMPLES: dict[Verb, str] = {
    "read": "read(docs/**)", "write": "write(src/**)", "run": "run(git push *)", "python": "python",
    "fetch": "fetch(https://api.example.com/*)", "connect": "connect(pypi.org:443)", "install": "install(flask)",
    "mcp": "mcp(github.search_*)", "api": "api(shop.get*)", "call": "call(convert)",
    "ask_person": "ask_person", "start_role": "start_role(reviewer)"}
"""A rule of each verb."""
_READERS: dict[Verb, Callable[[str], Pattern]] = {
    "read": PathPattern.read, "write": PathPattern.read, "run": CommandPattern.read, "fetch": PlacePattern.read,
    "connect": HostPattern.read, "install": PackagePattern.read, "mcp": partial(NamePattern.read, dotted=True),
    "api": partial(NamePattern.read, dotted=True),
    "call": partial(NamePattern.read, dotted=False), "start_role": partial(NamePattern.read, dotted=False)}
_HABITS: dict[str, Verb] = {            # what other tools call it
    "bash": "run", "shell": "run", "exec": "run", "command": "run", "edit": "write", "delete": "write", "list": "read",
    "search": "read", "glob": "read", "grep": "read", "webfetch": "fetch", "http": "fetch", "url": "fetch", "network": "connect",
    "host": "connect", "packages": "install", "pip": "install", "package": "install", "openapi": "api",
    "function": "call", "tool": "call", "task": "start_role", "agent": "start_role"}
_FORM = re.compile(r"([^\s()]+)\s*+(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule. `text` is what was written, without spaces around it."""

    verb: Verb
    pattern: Pattern
    text: str

    @property
    def everything(self) -> bool:
        """Whether it is about all actions of its verb."""
        return isinstance(self.pattern, Everything)

    def within(self, other: PolicyRule) -> bool:
        """Whether the other surely covers all that this one does."""
        return self.verb == other.verb and self.pattern.within(other.pattern)


@lru_cache(maxsize=1024)
def parse_rule(text: str) -> PolicyRule:
    """The rule. Raises RuleWritten: it has another form, its pattern can't be read; VerbUnknown."""
    verb, pattern = split(text)
    if pattern is None or (pattern in ("**", "*") and verb in _READERS and verb not in ("read", "write")) or pattern == "**":
        if pattern is not None and verb not in _READERS:
            raise RuleWritten(f"`{verb}` takes no pattern", f"write `{verb}`")
        return PolicyRule(verb, Everything(), text.strip())
    if verb not in _READERS:
        raise RuleWritten(f"`{verb}` takes no pattern", f"write `{verb}`")
    return PolicyRule(verb, _READERS[verb](pattern), text.strip())


def split(text: str) -> tuple[Verb, str | None]:
    """The verb and what stands in its brackets, without spaces around it; None where there are none. Raises RuleWritten."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise RuleWritten(f"`{text.strip()}` is no rule", f"write a verb, or a verb and a pattern like `{EXAMPLES['run']}`, "
                          f"`{EXAMPLES['write']}`")
    name, inner = found[1], found[2]
    verb = next((verb for verb in VERBS if verb == name), None)
    if verb is None:
        known = _HABITS.get(name.casefold()) or nearest(name.casefold(), VERBS)
        if known in VERBS:
            raise VerbUnknown(f"there is no verb `{name}`", f"did you mean `{known}`, as in `{EXAMPLES[known]}`? "
                              f"there is: {', '.join(VERBS)}")
        raise VerbUnknown(f"there is no verb `{name}`", did_you_mean(name, VERBS))
    if inner is not None and not inner.strip():
        raise RuleWritten(f"the brackets of `{text.strip()}` are empty", f"write `{verb}` for all of it, or a pattern as in "
                          f"`{EXAMPLES[verb]}`" if verb in _READERS else f"write `{verb}`")
    return verb, None if inner is None else inner.strip()
