"""What holds where no rule says otherwise. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from metaflow_agents.policy.action import PLAIN, VERBS
from metaflow_agents.policy.rules import PolicyRule, parse_rule


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules that any written one beats; what they do not name is denied."""

    allow: tuple[PolicyRule, ...]
    ask: tuple[PolicyRule, ...] = ()


@cache
def preset(name: str) -> Preset:
    """The preset of that name: `read-only`, `workspace` or `danger-full-access`."""
    allow, ask = {
        "read-only": (("read", "ask_person"), ()),
        "workspace": (("read", "write", "run", "python", "call", "ask_person", "start_role"), ("mcp", "api", "fetch", "install")),
        "danger-full-access": (VERBS, ()),
    }[name]
    return Preset(tuple(map(_all_of, allow)), tuple(map(_all_of, ask)))


def _all_of(verb: str) -> PolicyRule:
    return parse_rule(verb if verb in PLAIN else f"{verb}(**)")
