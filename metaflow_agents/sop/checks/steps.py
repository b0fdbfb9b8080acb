"""A walk over all expressions and templates of a SOP, in the order in which a reader meets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts import Analysis, analyse_template, evaluate
from metaflow_agents.prompts.names import histories
from metaflow_agents.schema.fitting import misfit, turned
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies.workers import partners
from metaflow_agents.sop.checks.assignment import check_assignment
from metaflow_agents.sop.checks.context import Context, Place, made_by
from metaflow_agents.sop.checks.expressions import UNKNOWN_NAME, Scope, expression, name_at, run_shape, step_scope, template
from metaflow_agents.sop.checks.foreach import check_foreach
from metaflow_agents.sop.checks.showing import check_show

_TEXT = Shape.text()
_ROLE = Shape.of({
    "type": "object",
    "properties": {"name": {"type": "string"}, "profile": {"type": "string"}, "goal": {"type": "string"},
                   "constraints": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "profile", "goal", "constraints"], "additionalProperties": False})


def check_expressions(c: Context) -> None:
    """Everything but `foreach` (which has a file of its own), files' patterns and commands."""
    for name, step in c.sop.steps.items():
        _step(c, name, step)
    everything = {**{name: c.shape(name) for name in c.sop.inputs},
                  **{name: c.shape(name).as_optional() for name in c.sop.artifacts}, "run": run_shape(c)}
    if c.sop.success is not None:
        expression(c, ("success",), c.sop.success, everything)
    for name, case in c.sop.tests.items():
        expression(c, ("tests", name, "expect"), case.expect, {**everything, "success": Shape("boolean")})
    for name, artifact in c.sop.artifacts.items():
        for index, rule in enumerate(artifact.rules):
            where: Place = ("artifacts", name, "rules", index, "assert")
            expression(c, where, rule.assert_, _rule_scope(c, name))
            if histories(rule.assert_):
                c.say("unknown-name", where, "there is no `history` in a rule, which judges one version by itself",
                      f"say it in the `when` of a step that reads `{name}`, or in `success`")
    _stored_templates(c)


def _rule_scope(c: Context, name: str) -> dict[str, Shape]:
    """What a rule sees: the artifact (of a collection one item) by its name, `run`, and the item where each maker has one."""
    own = c.shape(name)
    if own.kind == "collection" and own.element is not None:
        own = own.element
    scope = {name: own, "run": run_shape(c)}
    makers = [step for step, written in c.sop.steps.items() if written.makes.artifact == name]
    if makers and all(c.sop.steps[step].foreach for step in makers):
        walked = [c.walked[step].item() if step in c.walked else Shape.any() for step in makers]
        scope |= {"item": Shape.union(*walked), "key": _TEXT}
    return scope


def _step(c: Context, name: str, step: Step) -> None:
    item = check_foreach(c, name, step) if step.foreach else None
    whole, each = step_scope(c, name, step), step_scope(c, name, step, item)
    if step.when is not None:
        analysis = expression(c, ("steps", name, "when"), step.when, whole, name)
        _constant(c, name, step, analysis)
    if step.priority is not None:
        analysis = expression(c, ("steps", name, "priority"), step.priority, whole, name)
        if analysis and not analysis.findings and not analysis.shape.kinds & {"any", "number", "integer"}:
            c.say("priority-number", ("steps", name, "priority"),
                  f"`priority` is {analysis.shape.describe()}; it must be a number", "write a number: higher starts first")
    if step.value is not None:
        _value(c, name, step, expression(c, ("steps", name, "value"), step.value, each, name))
    check_assignment(c, name, step, each)
    if step.task is not None:
        template(c, ("steps", name, "task"), step.task, each, name)
    if step.self_ is not None:
        template(c, ("steps", name, "self"), step.self_, each, name)
    if step.memory_of is not None:
        template(c, ("steps", name, "memory_of"), step.memory_of, each, name)
        if step.self_ is not None:
            c.say("memory-of-self", ("steps", name, "memory_of"), f"`{name}` sets twice whose memory is used: `self` gives each "
                  "character of the role a memory of its own, `memory_of` one that roles share", "keep one of the two", key=True)
    check_show(c, name, step, each)
    for key, written in (("args", step.args), ("with", step.with_)):
        for where, text in texts_in(written, ("steps", name, key)):
            template(c, where, text, each, name)


def _value(c: Context, name: str, step: Step, analysis: Analysis | None) -> None:
    """That what the expression gives can become the artifact."""
    if analysis is None or analysis.findings or (c.shape(step.makes.artifact).kind == "collection" and not step.foreach):
        return                                            # a collection without `foreach` is told where it is made
    fault = misfit(analysis.shape, made_by(c, step))
    if fault is not None:
        c.say("value-type", ("steps", name, "value"), fault.told(step.makes.artifact, "would be"),
              f"{turned(fault)}, or declare `{step.makes.artifact}` as what the expression gives")


def _constant(c: Context, name: str, step: Step, analysis: Analysis | None) -> None:
    if analysis is None or analysis.findings or analysis.names or analysis.histories or step.when is None:
        return
    c.constant.add(name)
    try:
        holds = bool(evaluate(step.when, {}))
    except ExpressionError:
        return                                            # it needs values after all, and the run will tell
    c.say("when-constant", ("steps", name, "when"), f"`when` is always {'true' if holds else 'false'}"
          + ("" if holds else f": `{name}` never fires"),
          "leave it out" if holds else "name what it depends on, or remove the step")


def texts_in(value: Any, where: Place) -> Iterator[tuple[Place, str]]:
    """All texts of a written value, each with its place."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(inner, (*where, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*where, index))


def _stored_templates(c: Context) -> None:
    """`render` templates see their artifact; a role's prompt sees what any step of the role reads."""
    for name, artifact in c.sop.artifacts.items():
        if artifact.render in c.program.templates:
            _stored(c, artifact.render, {name: c.shape(name), "run": run_shape(c)}, f"the artifact `{name}`")
    for name, role in c.sop.roles.items():
        if role.prompt not in c.program.templates:
            continue
        scope: dict[str, Shape] = {}
        for step_name, step in c.sop.steps.items():
            if step.role == name or c.role_expressions or name in partners(step, c.strategies):
                item = Shape.any() if step.foreach else None
                scope |= {key: shape.as_optional() for key, shape in step_scope(c, step_name, step, item).items()}
        if c.sop.progress is not None and c.sop.progress.role == name:
            scope |= {one: c.shape(one).as_optional() for one in c.known}
        _stored(c, role.prompt, {**scope, "round": Shape("integer"), "run": run_shape(c), "role": _ROLE, "step": _TEXT},
                f"the role `{name}`")


def _stored(c: Context, file: str | None, scope: Scope, owner: str) -> None:
    text = c.program.templates[file or ""]
    analysis = analyse_template(text, scope, c.program.templates)
    c.analyses.append(("", analysis))
    for finding in analysis.findings:
        code, message = finding.code, finding.message
        if code == "unknown-include" and c.template_missing:
            continue                                      # why the template is not there was told while reading
        if code == UNKNOWN_NAME and (name := name_at(text, finding)) in c.known:
            code, message = "not-read", f"`{name}` is named here, but nothing that {owner} is shown holds it"
        c.say_at(code, *c.loaded.places.template(file or "", finding.line, finding.column), message, finding.mend)
