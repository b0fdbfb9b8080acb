"""Policies: rules that can be read and that can matter, and tools that they let somebody use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.network import addresses
from metaflow_agents.policy.action import Verb
from metaflow_agents.policy.judged import BUILT_IN, judged
from metaflow_agents.policy.patterns import NamePattern, PathPattern, RuleWritten, VerbUnknown
from metaflow_agents.policy.place_patterns import HostPattern, PlacePattern
from metaflow_agents.policy.policy import Policy
from metaflow_agents.policy.rules import PolicyRule, parse_rule
from metaflow_agents.schema import paths
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.tools import PolicySpec, is_file
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.installed import check_plugin

_NAMED: Mapping[Verb, tuple[str, Callable[[SOP], Collection[str]]]] = {
    "mcp": ("MCP server", lambda sop: sop.mcp_servers), "api": ("API", lambda sop: sop.openapi),
    "call": ("function under `tools`", lambda sop: [name for name in sop.tools if name not in BUILT_IN]),
    "start_role": ("role", lambda sop: sop.roles)}
_STRONGER = {"deny": (), "ask": ("deny",), "allow": ("deny", "ask")}


@dataclass(frozen=True, slots=True)
class _Written:
    """A rule and where it stands."""

    rule: PolicyRule
    verdict: str
    where: Place


def check_policies(c: Context) -> None:
    """The SOP's policy and that of each role."""
    own = _read(c, ("policy",), c.sop.policy)
    roles = {name: _read(c, ("roles", name, "policy"), role.policy) for name, role in c.sop.roles.items()}
    if own is None or None in roles.values():
        return                                            # what they mean together is only known of rules that can be read
    bound = Policy(c.sop.policy)
    _screens(c)
    _hosts(c, [*own, *(one for found in roles.values() for one in found or ())])
    _idle(c, own, [program.sop for program in c.program.all()])        # the policy holds in the SOPs that its steps are, too
    for found in roles.values():
        _idle(c, found or [], [c.sop])
        for one in found or []:
            _beneath(c, one, own, bound)
    _tools(c)
    _answers(c)


def _read(c: Context, where: Place, spec: PolicySpec | None) -> list[_Written] | None:
    """The rules of a policy; None where some can't be read, which is told."""
    found: list[_Written] = []
    sound = True
    for verdict in ("allow", "ask", "deny"):
        for index, text in enumerate(getattr(spec, verdict, ())):
            place = c.entry(*where, verdict, index)
            try:
                found.append(_Written(parse_rule(text), verdict, place))
            except RuleWritten as fault:
                sound = False
                tool = judged(text.partition("(")[0].strip(), c.sop) if isinstance(fault, VerbUnknown) else None
                c.say("unknown-verb" if isinstance(fault, VerbUnknown) else "bad-rule", place, fault.message,
                      fault.mend if tool is None or tool.tool in BUILT_IN else f"write `{tool.rule}`")
    return found if sound else None


def _screens(c: Context) -> None:
    """Screens that no package adds or that can't be loaded, that are named twice, or that a role names."""
    for index, name in enumerate(c.sop.screens):
        where = c.entry("policy", "screen", index)
        if name in c.sop.screens[:index]:
            c.say("bad-screen", where, f"the screen `{name}` is duplicated", "remove one of the two")
        elif not is_file(name):
            check_plugin(c, where, "screens", name, "screen")
    for role, spec in c.sop.roles.items():
        if spec.policy is not None and spec.policy.screen:
            c.say("bad-screen", ("roles", role, "policy", "screen"), f"the role `{role}` names a screen, and screens look at all "
                  "that is said in a run, whoever says it", "move it to the `policy` of the SOP")


def _hosts(c: Context, rules: list[_Written]) -> None:
    """Rules about places of this machine or of a private network that no connection is ever made for."""
    for one in rules:
        pattern = one.rule.pattern
        if one.verdict == "deny" or not isinstance(pattern, HostPattern | PlacePattern) or pattern.host is None or pattern.below:
            continue
        address = addresses.read(pattern.host)
        why = "this machine" if pattern.host == "localhost" else addresses.refused(address) if address is not None else None
        opens = f"the rule `{one.rule.text}` under `{one.verdict}` has no effect: `{pattern.host}` is {why}"
        if why and address is not None and not addresses.grantable(address):
            c.say("rule-port", one.where, f"{opens}, and no rule grants such an address", "name another host")
        elif why and pattern.port is None:
            c.say("rule-port", one.where, f"{opens}, which is granted port by port",
                  f"write `{one.rule.verb}({_bracketed(pattern.host)}:PORT)`, with the port that is meant")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _idle(c: Context, rules: list[_Written], sops: list[SOP]) -> None:
    """Rules that a stronger one of the same policy always beats, that are duplicated, or that nothing can be about."""
    for at, one in enumerate(rules):
        stronger = _winning(one, rules)
        if stronger is not None:
            _say(c, one, f"`{stronger.verdict}` has `{stronger.rule.text}`, which always wins over it",
                 "remove one of the two, or make this one wider")
        elif any(other.verdict == one.verdict and other.rule.text == one.rule.text for other in rules[:at]):
            _say(c, one, "it stands in this list already", "remove it")
        elif one.verdict != "deny" and isinstance(one.rule.pattern, PathPattern) and any(
                paths.is_git(part) for part in one.rule.pattern.pattern.split("/")):
            _say(c, one, "`.git` belongs to git alone: no rule opens it", "remove it")
        else:
            _about_nothing(c, one, sops)


def _about_nothing(c: Context, one: _Written, sops: list[SOP]) -> None:
    """A rule about a server, a service, a function or a role that none of these has, a tool that nobody uses, or paths where no
    artifact lies: a misspelt `deny` denies nothing.
    """
    if isinstance(one.rule.pattern, PathPattern) and one.rule.verb == "write":
        _written_nowhere(c, one, one.rule.pattern.pattern, sops)
    if not isinstance(one.rule.pattern, NamePattern) or one.rule.verb not in _NAMED:
        return
    what, named = _NAMED[one.rule.verb]
    names = {name: None for sop in sops for name in named(sop)}
    meant, *tool = one.rule.pattern.parts
    source = meant.partition(".")[0]
    if any(source in sop.tool_sources for sop in sops) and one.rule.verb == "call":
        return                                            # which tools it has is known in a run
    if not any(fnmatchcase(name.casefold(), meant.casefold()) for name in names):
        _say(c, one, f"the SOP has no {what} `{meant}`", did_you_mean(meant, names) if names else "remove it, or mend the name")
    elif tool and meant in names and tool[0] != "*":
        used = {name: None for sop in sops for name in _tools_of(sop, meant)}
        close = nearest(tool[0], used)
        folded = [(name.casefold(), tool[0].casefold()) for name in used]
        known = any(fnmatchcase(*pair) or fnmatchcase(*pair[::-1]) for pair in folded)
        if used and not known and (close or one.verdict != "deny"):
            _say(c, one, f"no role and no step uses a tool `{meant}.{tool[0]}`", did_you_mean(tool[0], used))


def _tools_of(sop: SOP, source: str) -> Iterator[str]:
    """Tools of a server or a service that roles and steps use, or patterns of them."""
    listed = [tool for role in sop.roles.values() for tool in role.tools]
    for step in sop.steps.values():
        listed += [*step.named_tools, *([step.tool] if step.tool is not None else [])]
    for tool in listed:
        server, _, name = tool.partition(".")
        if server == source:
            yield name or "*"


def _written_nowhere(c: Context, one: _Written, pattern: str, sops: list[SOP]) -> None:
    """A rule about writing where no artifact lies. Of `deny` only where it is surely a slip: it may stand there to be safe."""
    artifacts = [spec for sop in sops for spec in sop.artifacts.values()]
    places = [place for spec in artifacts for place in spec.files]
    places += [paths.escape(path) for spec in artifacts for path in (spec.file, *spec.documents) if path is not None]
    first = pattern.partition("/")[0]
    close = nearest(first, {place.partition("/")[0] for place in places})
    if places and (one.verdict != "deny" or close) and not any(
            "{{" in place or paths.overlap(pattern, place) is not None for place in places):
        _say(c, one, "no artifact lies there, and a role writes the files of the artifact that it makes: "
             + ", ".join(places[:8]),
             f"did you mean `{one.rule.verb}({close}{pattern[len(first):]})`?" if close and close != first else
             "name paths of an artifact, or remove it")


def _beneath(c: Context, one: _Written, own: list[_Written], bound: Policy) -> None:
    """A role's rule that the SOP has decided already."""
    if one.verdict == "deny":
        return
    stronger = _winning(one, own)
    if stronger is not None:
        _say(c, one, f"the SOP has `{stronger.rule.text}` under `{stronger.verdict}`, and a role never widens what is allowed",
             "remove it, or change the policy of the SOP")
    elif not bound.ever(one.rule.verb):
        _say(c, one, f"the SOP allows no `{one.rule.verb}`, and a role never widens what the SOP allows",
             f"add `{one.rule.text}` to `allow` of the SOP's `policy`, or remove it here")


def _winning(one: _Written, rules: list[_Written]) -> _Written | None:
    """A rule that beats another one in all that it is about."""
    return next((other for other in rules if other.verdict in _STRONGER[one.verdict] and one.rule.within(other.rule)), None)


def _say(c: Context, one: _Written, why: str, mend: str) -> None:
    c.say("rule-without-effect", one.where, f"the rule `{one.rule.text}` under `{one.verdict}` has no effect: {why}", mend)


def _tools(c: Context) -> None:
    """Tools whose every call would be denied."""
    for where, tool, role in _uses(c):
        one = judged(tool, c.sop)
        if one is None:
            continue                                      # told as unknown
        policy = c.sop.roles[role].policy if role in c.sop.roles else None
        if not Policy(c.sop.policy, policy, role_name=role).ever(one.verb, one.name):
            blocked = not Policy(c.sop.policy).ever(one.verb, one.name)
            whose = "the SOP's `policy`" if blocked else f"the `policy` of the role `{role}`"
            denied = _denying(parse_rule(one.rule), c.sop.policy if blocked else policy)
            c.say("tool-never-allowed", where, f"`{role}` may never use `{tool}`: {whose} denies every call of it",
                  f"remove `{denied}` from `deny` of {whose}, or remove the tool" if denied else
                  f"add `{one.rule}` to `allow` (or `ask`) of {whose}, or remove the tool")


def _answers(c: Context) -> None:
    """Steps that make files by a role that may write none."""
    for name, step in c.sop.steps.items():
        made = c.sop.artifacts.get(step.makes.artifact)
        if step.role not in c.sop.roles or made is None or not made.files:
            continue
        policy = c.sop.roles[step.role].policy
        if not Policy(c.sop.policy, policy, role_name=step.role).ever("write"):
            blocked = not Policy(c.sop.policy).ever("write")
            whose = "the SOP's `policy`" if blocked else f"the `policy` of the role `{step.role}`"
            denied = _denying(parse_rule("write"), c.sop.policy if blocked else policy)
            c.say("tool-never-allowed", ("steps", name, "makes"),
                  f"`{step.role}` may never write a file, and this step makes files: {whose} denies it, in answers too",
                  f"remove `{denied}` from `deny` of {whose}, or make no files" if denied else
                  f"add `write({made.files[0]})` to `allow` (or `ask`) of {whose}")


def _denying(whole: PolicyRule, spec: PolicySpec | None) -> str:
    """The rule under `deny` that covers all of another one, as it is written: no `allow` beats it. Empty where there is none."""
    return next((text for text in (spec.deny if spec else ()) if whole.within(parse_rule(text))), "")


def _uses(c: Context) -> Iterator[tuple[Place, str, str]]:
    """Where a tool is given to a role, or called by a step: place, tool, role or step."""
    for name, role in c.sop.roles.items():
        for index, tool in enumerate(role.tools):
            yield c.entry("roles", name, "tools", index), tool, name
    for name, step in c.sop.steps.items():
        for index, tool in enumerate(step.named_tools if step.role in c.sop.roles else ()):
            yield c.entry("steps", name, "tools", index), tool, step.role or ""
        if step.tool is not None:
            yield ("steps", name, "tool"), step.tool, name
