"""What a role, or a step that calls a tool, may do, told: one action with its rules, or all its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metaflow_agents.policy.action import PLAIN, Action
from metaflow_agents.policy.judged import Judged, judged
from metaflow_agents.policy.policy import Policy
from metaflow_agents.schema import paths
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.tools.lookups import is_lookup
from metaflow_agents.views.page import Page, safe, table

WORDS = {"allow": "allowed", "ask": "a person is asked", "deny": "denied"}
_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}
_OUTSIDE = "what came from outside"


def explained(program: Program, who: str, policy: Policy, action: Action, *, untrusted: bool) -> dict[str, Any]:
    """What would happen, as `--json` prints it: verdict, rule, all rules that match, and the tools that could do it. `answer`: of
    what a role may write by its answers as well, the verdict there.
    """
    sop = program.sop
    found = policy.explain(action, untrusted=_OUTSIDE if untrusted else "", lookup=is_lookup(program, action))
    able = [tool for tool in _tools(sop, who) if (one := judged(tool, sop)) is not None and _does(one, action)]
    answer = policy.answer(action.target, named=_names(sop, who, action.target)) if action.verb == "write" and _answers(
        sop, who) else None
    return {"who": who, "action": str(action), "untrusted": untrusted, "verdict": found.decision.verdict,
            "rule": found.decision.rule, "matching": list(found.matching), "tools": able,
            "answer": None if answer is None else {"verdict": answer.verdict, "rule": answer.rule}}


def explained_lines(told: Mapping[str, Any], page: Page) -> list[str]:
    """The same for people."""
    verdict = told["verdict"]
    lines = [f"{page.paint(safe(told['action']), 'bold')} by {told['who']}: {page.paint(WORDS[verdict], _STYLES[verdict])}",
             *page.wrapped(safe(told["rule"]), "  ", "    ")]
    others = [rule for rule in told["matching"] if not told["rule"].endswith(rule)]
    if others:
        lines += ["also matching:", *(line for rule in others for line in page.wrapped(safe(rule), "  ", "    "))]
    answer = told["answer"]
    if answer and answer["verdict"] != verdict:
        lines.append(f"in an answer: {page.paint(WORDS[answer['verdict']], _STYLES[answer['verdict']])}")
        lines += page.wrapped(safe(answer["rule"]), "  ", "    ")
    elif answer:
        lines.append("the files that its answers write: the same")
    if told["tools"]:
        lines.append(f"its tools for that: {', '.join(told['tools'])}")
    elif not answer and not told["action"].startswith("connect"):
        lines.append(f"{told['who']} has no tool for that: nothing of the kind happens")
    return lines


def held(program: Program, who: str, policy: Policy, *, untrusted: bool) -> list[dict[str, Any]]:
    """What holds for each tool: its verdict where that does not depend on the call's arguments, and its rules."""
    sop, found = program.sop, []
    for tool in _tools(sop, who):
        one = judged(tool, sop)
        if one is None:
            continue                                      # `sop check` tells of it
        exact = one.verb in PLAIN or (one.name and "*" not in one.name)
        action = Action(one.verb, one.name)
        decision = policy.decide(action, untrusted=_OUTSIDE if untrusted else "",
                                 lookup=is_lookup(program, action)) if exact else None
        found.append({"tool": tool, "verb": one.verb, "verdict": decision.verdict if decision else None,
                      "rules": [decision.rule] if decision else list(policy.rules_of(one.verb))})
    if _answers(sop, who):
        found.append({"tool": "its answers", "verb": "write", "verdict": None, "rules": list(policy.rules_of("write"))})
    return found


def held_lines(who: str, tools: Sequence[Mapping[str, Any]], page: Page) -> list[str]:
    """The same for people: a line a rule."""
    if not tools:
        return [f"{who} has no tools: it writes text, and does nothing else"]
    rows = [[tool["tool"] if at == 0 else "", WORDS[tool["verdict"]] if tool["verdict"] and at == 0 else "", rule]
            for tool in tools for at, rule in enumerate(tool["rules"])]
    styles = {1: lambda word: next((_STYLES[key] for key, shown in WORDS.items() if shown == word), "")}
    lines = table(rows, page, headings=("tool", "", "rules"), styles=styles)
    if any(len(tool["rules"]) > 1 for tool in tools):
        lines += ["", *page.wrapped("of one level the first rule that matches holds; of the two levels the stricter one")]
    return lines


def _tools(sop: SOP, who: str) -> tuple[str, ...]:
    """The tools that a role has in any of its steps; of a step that calls one, that tool."""
    if who not in sop.roles:
        return sop.tools_of(sop.steps[who])
    steps = (sop.tools_of(step) for step in sop.steps.values() if step.role == who and step.tools is not None)
    return tuple(dict.fromkeys((*sop.roles[who].tools, *(tool for tools in steps for tool in tools))))


def _answers(sop: SOP, who: str) -> list[Step]:
    """The steps in which a role writes files by its answers; a step whose role is found in the run may be anybody's."""
    return [step for step in sop.steps.values() if sop.artifacts[step.makes.artifact].files and step.role is not None
            and who in sop.roles and (step.role == who or step.role not in sop.roles)]


def _names(sop: SOP, who: str, path: str) -> bool:
    """Whether the SOP's author wrote this very path for such a step."""
    return any("{{" not in pattern and paths.literal(pattern) == path for step in _answers(sop, who)
               for pattern in (*step.makes.patterns, *sop.artifacts[step.makes.artifact].files))


def _does(one: Judged, action: Action) -> bool:
    """Whether a tool's calls could be this action."""
    if one.verb != action.verb:
        return False
    source, _, pattern = one.name.partition(".")
    return not one.name or one.name == action.target or (pattern == "*" and action.target.startswith(f"{source}."))
