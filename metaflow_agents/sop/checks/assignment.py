"""Who does a step where an expression says so: a declared role, a declared model, tools that the role has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step, ToolChoice
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import Scope, expression, step_scope


def check_assignment(c: Context, name: str, step: Step, scope: Scope) -> None:
    """The expressions of `role`, `model` and `tools`. `scope`: what is seen for each item."""
    if step.role is not None and not re.fullmatch(NAME_PATTERN, step.role):
        _named(c, name, "role", step.role, scope, c.sop.roles)
    if step.model_expression is not None and worked_out(c, name, step):
        _named(c, name, "model", step.model_expression, scope, c.sop.models)
    if isinstance(step.tools, ToolChoice) and step.role is not None:
        _tools(c, name, step, step.tools.only, scope)


def worked_out(c: Context, name: str, step: Step) -> bool:
    """Whether `model` is an expression over something that the step sees; else it is a model's name that is misspelt."""
    text = step.model_expression
    return text is not None and bool(free_names(text) & set(step_scope(c, name, step, Shape.any())))


def _named(c: Context, name: str, key: str, text: str, scope: Scope, declared: Mapping[str, object]) -> None:
    where: Place = ("steps", name, key)
    analysis = expression(c, where, text, scope, name)
    if analysis is None or analysis.findings:
        return
    shape = analysis.shape
    if not shape.kinds & {"any", "string"}:
        c.say(f"{key}-text", where, f"this expression gives {shape.describe()}; it must give the name of a {key}",
              f"name one of the declared {key}s")
    for choice in shape.enum() or ():
        if choice not in declared and choice is not None:
            there = f"; there is: {', '.join(declared)}" if declared else ""
            c.say(f"unknown-{key}", where, f"this expression may give {choice!r}, which is no {key} of this SOP",
                  f"declare it under `{key}s`, or take it out of the choices{there}")


def _tools(c: Context, name: str, step: Step, text: str, scope: Scope) -> None:
    from metaflow_agents.policy.judged import judged, tool_names

    where: Place = ("steps", name, "tools", "only")
    analysis = expression(c, where, text, scope, name)
    if analysis is None or analysis.findings:
        return
    shape = analysis.shape
    if not shape.kinds & {"any", "list"} or ("list" in shape.kinds and not shape.item().kinds & {"any", "string"}):
        c.say("tools-list", where, f"this expression gives {shape.describe()}; it must give a list of tools",
              "give the names of tools that the role has")
        return
    for choice in (shape.item().enum() or ()) if "list" in shape.kinds else ():
        if judged(str(choice), c.sop) is None:
            c.say("unknown-tool", where, f"this expression may give {choice!r}, which is no tool of this SOP",
                  did_you_mean(str(choice), tool_names(c.sop), limit=20))
    if not c.sop.tools_of(step, step.role if step.role in c.sop.roles else None):
        c.say("tools-list", where, "this picks of the tools that the role has, and it has none",
              "give the role its `tools`, or remove this")
