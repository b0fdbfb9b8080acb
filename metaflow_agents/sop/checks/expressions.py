"""Every expression and template of a SOP, analysed over what its place may see."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from metaflow_agents.errors import nearest
from metaflow_agents.prompts import Analysis, Finding, analyse_expression, analyse_template
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import NAME_PATTERN, Step
from metaflow_agents.sop.checks import cut
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.graph import artifact_of

Scope = Mapping[str, Shape]
UNKNOWN_NAME = "unknown-name"
_TEXT = Shape.text()
_ROLE = Shape.of({
    "type": "object",
    "properties": {"name": {"type": "string"}, "profile": {"type": "string"}, "goal": {"type": "string"},
                   "constraints": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "profile", "goal", "constraints"], "additionalProperties": False})
ITEM_NAMES = ("item", "key", "prior")


def run_shape(c: Context) -> Shape:
    """`run`: the run's name and its inputs."""
    schemas = {name: c.program.schemas.get(f"input:{name}", {}) for name in c.sop.inputs}
    if any("$defs" in schema or "$python" in schema for schema in schemas.values()):
        schemas = {name: {} for name in schemas}
    inputs = {"type": "object", "properties": schemas, "required": list(schemas), "additionalProperties": False}
    return Shape.of({"type": "object", "properties": {"name": {"type": "string"}, "inputs": inputs},
                     "required": ["name", "inputs"], "additionalProperties": False})


def step_scope(c: Context, name: str, step: Step, item: Shape | None = None) -> dict[str, Shape]:
    """What a step's expressions may name; with an `item`, those that are worked out for each item."""
    scope = {**c.scope(name, step), "round": Shape("integer"), "run": run_shape(c)}
    if item is not None and step.foreach:
        prior = c.shape(step.makes.artifact)
        own = prior.element if prior.kind == "collection" and prior.element else Shape.any()
        scope |= {"item": item, step.foreach.as_: item, "key": _TEXT, "prior": Shape.collection(own)}
    return scope


def expression(c: Context, where: Place, text: str, scope: Scope, step: str = "") -> Analysis | None:
    """Analyses the expression at a place and tells its faults. None where the text is no expression at all."""
    if cut.told(c, where, text):
        return None
    analysis = analyse_expression(text, scope)
    _tell(c, where, text, analysis, step)
    return analysis


def template(c: Context, where: Place, text: str, scope: Scope, step: str = "") -> Analysis:
    """Analyses the template at a place of the SOP and tells its faults."""
    analysis = analyse_template(text, scope, c.program.templates)
    _tell(c, where, text, analysis, step)
    return analysis


def _tell(c: Context, where: Place, text: str, analysis: Analysis, step: str) -> None:
    c.analyses.append((step, analysis))
    for finding in analysis.findings:
        code, message, mend = explained(c, finding, text, step)
        if code:
            c.say(code, where, message, mend, inside=(finding.line, finding.column))
    if step:
        _parts_read(c, where, text, analysis, step)


def explained(c: Context, finding: Finding, text: str, step: str) -> tuple[str, str, str]:
    """The finding's code, message and mend, put in terms of the SOP where it is about an artifact's name."""
    if finding.code != UNKNOWN_NAME:
        return finding.code, finding.message, finding.mend
    name = _name_at(text, finding)
    if step and name in c.known:
        return ("not-read", f"`{name}` is named here, but `{step}` does not read it",
                f"add `{name}` to `sees` (or to `needs` or `wants`, where it should trigger)")
    if name in c.sop.steps:
        made = c.sop.steps[name].makes.artifact
        return ("step-for-artifact", f"`{name}` is a step; expressions and templates see artifacts",
                f"write the artifact that `{name}` makes: `{made}`")
    foreach = c.sop.steps[step].foreach if step else None
    if step and (name in ITEM_NAMES or (foreach and name == foreach.as_)):
        return (finding.code, f"`{name}` is not known here: there is an item only inside a `foreach`" if not foreach
                else f"`{name}` is not known here: it belongs to an item",
                "`in`, `when` and `priority` speak of the whole firing; pick items with `where`" if foreach
                else "give the step a `foreach`, or leave it out")
    close = nearest(name, c.known)
    if step and close and close not in finding.mend:
        return finding.code, finding.message, f"did you mean `{close}`? Then add it to `sees`; {finding.mend}"
    return finding.code, finding.message, finding.mend


def _name_at(text: str, finding: Finding) -> str:
    """The name that the finding is about, from its message: the first word in backquotes."""
    match = re.search(r"`(\w+)`", finding.message)
    return match[1] if match else ""


def _parts_read(c: Context, where: Place, text: str, analysis: Analysis, step: str) -> None:
    """`needs: [design.package]` lets the step name `design.package`, and nothing else of the design."""
    written = c.sop.steps[step]
    entries = [entry for kind in ("needs", "wants", "sees") for entry in getattr(written, kind)]
    for path in sorted(analysis.paths):
        parts = [tuple(entry.split(".")) for entry in entries if artifact_of(entry) == path[0]]
        if len(path) < 2 or not parts or any(path[:len(part)] == part or part[:len(path)] == path for part in parts):
            continue
        named, granted = ".".join(path), ", ".join(f"`{'.'.join(part)}`" for part in parts)
        c.say("not-read", where, f"`{named}` is named here, but `{step}` reads only {granted}",
              f"add `{'.'.join(path[:2])}` to `needs`, or `{path[0]}` to `sees`", inside=_found(text, named))


def _found(text: str, name: str) -> tuple[int, int]:
    at = max(text.find(name), 0)
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


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
            expression(c, ("artifacts", name, "rules", index, "assert"), rule.assert_, {name: c.shape(name), "run": run_shape(c)})
    _stored_templates(c)


def _step(c: Context, name: str, step: Step) -> None:
    from metaflow_agents.sop.checks.foreach import check_foreach
    item = check_foreach(c, name, step) if step.foreach else None
    whole, each = step_scope(c, name, step), step_scope(c, name, step, item)
    if step.when is not None:
        analysis = expression(c, ("steps", name, "when"), step.when, whole, name)
        _constant(c, name, step, analysis)
    if step.priority is not None:
        analysis = expression(c, ("steps", name, "priority"), step.priority, whole, name)
        if analysis and not analysis.findings and not analysis.shape.kinds & {"any", "number", "integer"}:
            c.say("priority-number", ("steps", name, "priority"),
                  f"`priority` is {analysis.shape.describe()}; it has to be a number", "write a number: higher starts first")
    if step.value is not None:
        expression(c, ("steps", name, "value"), step.value, each, name)
    if step.role is not None and not re.fullmatch(NAME_PATTERN, step.role):
        _role_expression(c, name, step.role, each)
    if step.task is not None:
        template(c, ("steps", name, "task"), step.task, each, name)
    for where, text in _texts(step.args, ("steps", name, "args")):
        template(c, where, text, each, name)


def _constant(c: Context, name: str, step: Step, analysis: Analysis | None) -> None:
    if analysis is None or analysis.findings or analysis.names or analysis.histories or step.when is None:
        return
    from metaflow_agents.errors import ExpressionError
    from metaflow_agents.prompts import evaluate
    try:
        holds = bool(evaluate(step.when, {}))
    except ExpressionError:
        return                                            # it needs values after all, and the run will tell
    c.say("when-constant", ("steps", name, "when"), f"`when` is always {'true' if holds else 'false'}"
          + ("" if holds else f": `{name}` never fires"),
          "leave it out" if holds else "name what it depends on, or remove the step")


def _role_expression(c: Context, name: str, text: str, scope: Scope) -> None:
    where: Place = ("steps", name, "role")
    analysis = expression(c, where, text, scope, name)
    if analysis is None or analysis.findings:
        return
    shape, choices = analysis.shape, analysis.shape.enum()
    if not shape.kinds & {"any", "string"}:
        c.say("role-text", where, f"this expression gives {shape.describe()}; it has to give the name of a role",
              "name one of the declared roles")
    for choice in choices or ():
        if choice not in c.sop.roles:
            c.say("unknown-role", where, f"this expression may give {choice!r}, which is no role of this SOP",
                  f"declare it under `roles`, or take it out of the choices; there is: {', '.join(c.sop.roles)}")


def _texts(value: Any, where: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*where, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*where, index))


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
            if step.role == name or c.role_expressions:
                item = Shape.any() if step.foreach else None
                scope |= {key: shape.as_optional() for key, shape in step_scope(c, step_name, step, item).items()}
        _stored(c, role.prompt, {**scope, "round": Shape("integer"), "run": run_shape(c), "role": _ROLE, "step": _TEXT},
                f"the role `{name}`")


def _stored(c: Context, file: str | None, scope: Scope, owner: str) -> None:
    text = c.program.templates[file or ""]
    analysis = analyse_template(text, scope, c.program.templates)
    c.analyses.append(("", analysis))
    lost = any(problem.code.startswith("template-") for problem in c.reading)
    for finding in analysis.findings:
        code, message = finding.code, finding.message
        if code == "unknown-include" and lost:
            continue                                      # why the template is not there was told while reading
        if code == UNKNOWN_NAME and (name := _name_at(text, finding)) in c.known:
            code, message = "not-read", f"`{name}` is named here, but nothing that {owner} is shown holds it"
        c.say_at(code, *c.loaded.places.template(file or "", finding.line, finding.column), message, finding.mend)
