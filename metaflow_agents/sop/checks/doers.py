"""Who works: exactly one doer a step, keys that fit it, roles, commands, models and strategies that exist."""

from __future__ import annotations

import re

from metaflow_agents.errors import did_you_mean, nearest
from metaflow_agents.sandbox.command import CommandWritten, is_pytest, parse_argv, parse_parse
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import DOERS, Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import step_scope, template

FITS = {"task": ("role", "human"), "show": ("role",), "self": ("role",), "memory_of": ("role",),
        "strategy": ("role",), "check": ("role", "tool"),
        "review": ("role",), "talks_to": ("role",), "stuck": ("role",), "model": ("role",), "parse": ("run", "tool"),
        "packages": ("run", "role", "tool"),
        "args": ("call",), "with": ("use",), "inputs": ("sop", "tool"), "output": ("sop",), "inherits_memory": ("sop",),
        "tools": ("role",),
        "trusts": ("role", "call", "use", "run", "tool", "value", "sop"),
        "effect": ("call", "use"),
        "on_no_answer": ("role", "human", "tool")}


def check_doers(c: Context) -> None:
    """Each step's doer and what hangs on it."""
    for name, step in c.sop.steps.items():
        _doer(c, name, step)
        if name in c.doers:
            _fitting(c, name, step)
        if step.role is not None:
            _role(c, name, step)
        if step.run is not None:
            command(c, name, step, ("steps", name, "run"), step.run)
            _parsing(c, name, step)
        if step.check:
            _check(c, name, step)


def _doer(c: Context, name: str, step: Step) -> None:
    found = [key for key in DOERS if getattr(step, key) is not None]
    if not found:
        c.say("no-doer", ("steps", name), f"`{name}` has no type of step",
              "add one of `role: NAME`, `run: COMMAND`, `call: MODULE:FUNCTION`, `use: NAME`, `tool: NAME`, "
              "`value: EXPRESSION`, `human: text`, `sop: NAME`", key=True)
    elif len(found) > 1:
        listed = " and ".join(f"`{key}`" for key in found)
        c.say("two-doers", ("steps", name, found[1]), f"`{name}` has {listed}: one step has one type",
              "keep one, and make the other a step of its own that reads what this one makes", key=True)


def _fitting(c: Context, name: str, step: Step) -> None:
    doer = c.doers[name]
    for key, doers in FITS.items():
        field = f"{key}_" if key in ("self", "with") else key
        written = field in step.model_fields_set and getattr(step, field) not in (None, {})
        if not written or doer in doers or not c.own("steps", name, key):
            continue
        mend = {"task": f"remove it; a `{doer}` step is told nothing",
                "check": "remove it, or let a step check what this one makes",
                "review": "remove it, or let a role judge it in a step of its own",
                "tools": "remove it; " + ("`tool` names the one that is called" if doer == "tool" else "only a role uses tools"),
                "talks_to": "remove it; only a role asks others",
                **dict.fromkeys(("self", "memory_of"), "remove it; only a role remembers"),
                "show": "remove it; only a role has a prompt",
                "trusts": "remove it; what a person says is trusted",
                "effect": "remove it, or let the function do it: `call: MODULE:FUNCTION`",
                "on_no_answer": f"remove it; nobody is asked by a `{doer}` step"}.get(key, "remove it")
        kinds = " and ".join(f"`{one}`" for one in doers) if len(doers) < 3 else ", ".join(f"`{one}`" for one in doers)
        c.say("key-misplaced", ("steps", name, key), f"`{key}` is a key of {kinds} steps, and `{name}` is a `{doer}` step",
              mend, key=True)
    cap = step.budget or Budget()
    if doer not in ("role", "sop") and (cap.usd or cap.tokens or cap.calls) and c.own("steps", name, "budget"):
        c.say("key-misplaced", ("steps", name, "budget"),
              f"`budget` caps model calls, and `{name}` is a `{doer}` step that makes none",
              "remove it; `timeout` bounds the time of an attempt", key=True)


def _role(c: Context, name: str, step: Step) -> None:
    role = step.role or ""
    if not re.fullmatch(NAME_PATTERN, role) or role in c.sop.roles:
        return
    where: Place = ("steps", name, "role")
    close = nearest(role, c.sop.roles)
    if close in c.lost_roles:
        return                                            # the slip is in the declaration, and told there
    declare = "" if close else f"declare it: `roles: {{{role}: {{}}}}` takes it from `roles/{role}.yaml`; "
    c.say("unknown-role", where, f"`{role}` is no role of this SOP", declare + did_you_mean(role, c.sop.roles))


def command(c: Context, name: str, step: Step, where: Place, written: str | tuple[str, ...]) -> tuple[str, ...]:
    """The command's arguments; empty where it could not be split."""
    scope = step_scope(c, name, step, Shape.any() if step.foreach else None)
    try:
        argv = parse_argv(written)
    except CommandWritten as fault:
        before = written[:fault.offset] if isinstance(written, str) else ""
        inside = (before.count("\n") + 1, fault.offset - (before.rfind("\n") + 1) + 1) if isinstance(written,
                                                                                                     str) and written else None
        c.say(fault.code, where, fault.message, fault.mend, inside=inside)
        return ()
    if isinstance(written, str):
        template(c, where, written, scope, name)
    else:
        for index, argument in enumerate(written):
            template(c, (*where, index), argument, scope, name)
    return argv


def _parsing(c: Context, name: str, step: Step) -> None:
    if step.parse is None or step.run is None:
        return
    where: Place = ("steps", name, "parse")
    try:
        kind, file = parse_parse(step.parse)
    except ValueError as error:
        message, _, mend = str(error).partition(": write ")
        c.say("bad-parse", where, message, f"write {mend}" if mend else "name a file of the run's repository")
        return
    if kind == "junit" and file is None:
        try:
            argv = parse_argv(step.run)
        except CommandWritten:
            return                                        # told at the command
        if not is_pytest(argv):
            c.say("bad-parse", where, "only pytest gets a file for its results by itself, and this command is not pytest",
                  "name the file that it writes: `parse: junit FILE`")


def _check(c: Context, name: str, step: Step) -> None:
    check = step.check
    if check is None:
        return
    where: Place = ("steps", name, "check")
    if c.doers.get(name) == "tool" and "repairs" in check.model_fields_set:
        c.say("key-misplaced", (*where, "repairs"),
              f"`repairs` is how often a role may mend its answer, and `{name}` is a `tool` step",
              "remove it; `retries` lets the tool be called anew", key=True)
    if (check.run is None) == (check.call is None):
        c.say("check-doer", where, "`check` has " + ("neither `run` nor `call`" if check.run is None else "`run` and `call`"),
              "write one: `run: COMMAND`, or `call: MODULE:FUNCTION`")
    elif check.run is not None:
        command(c, name, step, (*where, "run"), check.run)
        blind(c, name, step, (*where, "run"), "check: {call: MODULE:FUNCTION}")


def blind(c: Context, name: str, step: Step, where: Place, instead: str) -> None:
    """That a command that judges an answer sees it. `instead`: what judges without files."""
    made = step.makes.artifact
    artifact = c.sop.artifacts.get(made)
    if artifact is not None and not artifact.files and artifact.file is None and c.doers.get(name) in ("role", "tool"):
        file = f"{made}.txt" if c.shape(made).kinds & {"any", "string"} else f"{made}.json"
        c.say("check-blind", where,
              f"a command sees files, and `{made}` lies in none: this one can't see the answer that it is to check",
              f"give `{made}` a place, such as `file: {file}`, or use `{instead}`")
