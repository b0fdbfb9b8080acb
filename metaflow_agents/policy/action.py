"""What a tool call would do, as the policy judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from metaflow_agents.schema.event import Verdict

Verb = Literal["read", "write", "run", "python", "fetch", "connect", "install", "mcp", "api", "call", "ask_person",
               "start_role"]
VERBS: tuple[Verb, ...] = get_args(Verb)
ACTING: frozenset[Verb] = frozenset({"fetch", "connect", "install", "mcp", "api", "call"})
"""Verbs that reach beyond the run's repository: on untrusted input they are asked about."""
PLAIN = ("python", "ask_person")
"""Verbs that take no pattern."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a tool is about to do.

    `target`: what rules are matched against: a path of the run's repository, a command line, a URL, `SERVER.TOOL`, a name;
    of `install` names of packages, `flask, rich[jupyter]`; none: it installs nothing.
    `argv`: of `run`, its arguments, unsplit. `acting`: whether it reaches beyond the run's repository.
    """

    verb: Verb
    target: str = ""
    argv: tuple[str, ...] = ()

    @property
    def acting(self) -> bool:
        """Whether it reaches beyond the run's repository."""
        return self.verb in ACTING

    def __str__(self) -> str:
        return f"{self.verb}({self.target})" if self.target else self.verb


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy says of an action, and by which rule, in words: `deny run(git push *) of the SOP`."""

    verdict: Verdict
    rule: str
