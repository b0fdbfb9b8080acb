"""`sop policy explain`: what a role, or a step that calls a tool, may do, and by which rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli.options import Json, SOPFile
from metaflow_agents.cli.output import page, say, say_json
from metaflow_agents.errors import SOPInvalid, UsageError, did_you_mean

if TYPE_CHECKING:
    from metaflow_agents.policy.action import Action
    from metaflow_agents.schema.program import Program
    from metaflow_agents.schema.sop import SOP
    from metaflow_agents.schema.tools import PolicySpec

policy = typer.Typer(no_args_is_help=True, help="Permissions of roles.")


@policy.callback()
def _whole() -> None:
    """Show the permission rules of a SOP and its roles."""


@policy.command("explain")
def explain(file: SOPFile,
            who: Annotated[str, typer.Argument(metavar="WHO", help="One of its roles, or of its steps with `tool:`; `STEP/WHO`: "
                                                                   "one in a SOP that is a step.")],
            action: Annotated[str | None, typer.Argument(
                metavar="ACTION", help="The action, as rules spell it: 'run(git push)', 'write(src/a.py)', "
                                       "'fetch(https://api.example.com/v1)'. By default all its tools.")] = None,
            untrusted: Annotated[bool, typer.Option(
                "--untrusted", help="As if it had read untrusted content.")] = False,
            json: Json = False) -> int:
    """Explain which rule decides about an action of a role or a step with `tool:`; nothing is run."""
    from metaflow_agents.policy.policy import Policy
    from metaflow_agents.views.permissions import explained, explained_lines, held, held_lines

    program, name, above = _inside(_program(file), who)
    sop = program.sop
    calling = [step for step, spec in sop.steps.items() if spec.tool is not None]
    if name not in sop.roles and name not in calling:
        entries = [f"{step}/…" for step, spec in sop.steps.items() if spec.sop is not None]
        raise UsageError(f"`{name}` is no role of {'this SOP' if name == who else f'the SOP `{sop.sop}`'}"
                         f"{' and no step with `tool:`' if calling else ''}: "
                         f"{did_you_mean(name, [*sop.roles, *calling, *entries])}")
    rules = Policy(sop.policy, sop.roles[name].policy if name in sop.roles else None, role_name=name, above=above)
    if action is None:
        tools = held(program, name, rules, untrusted=untrusted)
        if json:
            say_json({"who": who, "untrusted": untrusted, "tools": tools})
        else:
            say(held_lines(who, tools, page()))
        return 0
    told = {**explained(program, name, rules, _action(action, sop), untrusted=untrusted), "who": who}
    if json:
        say_json(told)
    else:
        say(explained_lines(told, page()))
    return 0


def _inside(program: Program, who: str) -> tuple[Program, str, list[PolicySpec | None]]:
    """The SOP that `STEP/STEP/WHO` leads to, WHO, and the policies of the SOPs around it. Raises UsageError."""
    *steps, name = who.split("/")
    above: list[PolicySpec | None] = []
    for step in steps:
        above.append(program.sop.policy)
        program = program.inside([step])
    return program, name, above


def _program(file: str) -> Program:
    """The SOP, whatever else is wrong with it than its rules. Raises SOPNotFound, SOPInvalid."""
    from metaflow_agents.sop.check import check
    from metaflow_agents.sop.load import read_sop

    reading = read_sop(file)
    if reading.loaded is None:
        raise SOPInvalid(reading.problems)
    unread = [problem for problem in check(reading).problems if problem.code in ("bad-rule", "unknown-verb")]
    if unread:
        raise SOPInvalid(unread)
    return reading.loaded.program


def _action(written: str, sop: SOP) -> Action:
    """The action that is asked about. Raises UsageError."""
    from metaflow_agents.policy.action import PLAIN, Action
    from metaflow_agents.policy.patterns import RuleWritten, VerbUnknown
    from metaflow_agents.policy.rules import EXAMPLES, split
    from metaflow_agents.sandbox.command import CommandWritten, parse_argv

    try:
        verb, target = split(written)
    except VerbUnknown as fault:
        server = written.strip().partition(".")[0]
        tool = "mcp" if server in sop.mcp_servers else "api" if server in sop.openapi else "call" if server in sop.tools else None
        raise UsageError(f"{fault.message}: {fault.mend}" if tool is None or "(" in written else
                         f"`{written.strip()}` is a tool: write what a call of it is, `{tool}({written.strip()})`") from None
    except RuleWritten:
        raise UsageError(f"`{written.strip()}` is no action: write a verb and what it would be done to, like `run(git push)`, "
                         "`write(src/a.py)`") from None
    if (target is None) != (verb in PLAIN):
        example = EXAMPLES[verb].replace("**", "a.md").replace(" *", "").replace("*", "x")
        raise UsageError(f"`{verb}` stands alone: write `{verb}`" if verb in PLAIN else
                         f"`{verb}` of what? write it like `{example}`")
    if verb != "run":
        return Action(verb, target or "")
    try:
        return Action(verb, target or "", parse_argv(target or ""))
    except CommandWritten as fault:
        raise UsageError(f"{fault.message}: {fault.mend.replace('[bash, -c, ', 'bash -c ').replace(']', '')}") from None
