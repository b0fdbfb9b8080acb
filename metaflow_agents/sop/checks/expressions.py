"""One expression or template, analysed over what its place may see, its faults told in terms of the SOP."""

from __future__ import annotations

import re
from collections.abc import Mapping

from metaflow_agents.errors import nearest
from metaflow_agents.prompts import Analysis, Finding, analyse_expression, analyse_template, includes
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks import cut
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.graph import artifact_of

Scope = Mapping[str, Shape]
UNKNOWN_NAME = "unknown-name"
_TEXT = Shape.text()
_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")
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
    if cut.told(c, where, text) or _environment(c, where, text):
        return None
    analysis = analyse_expression(text, scope)
    _tell(c, where, text, analysis, step)
    return analysis


def template(c: Context, where: Place, text: str, scope: Scope, step: str = "") -> Analysis:
    """Analyses the template at a place of the SOP and tells its faults. Of these a task alone may include templates."""
    if where[2:] != ("task",) and (named := includes(text)):
        c.say("refused-feature", where, f"`{named[0]}` can't be included here: tasks, roles' prompts and `render` include "
              "templates", "write its text here")
        return Analysis()
    if set(_VARIABLE.findall(text)) & set(c.sop.secrets):
        _environment(c, where, text)
    analysis = analyse_template(text, scope, c.program.templates)
    _tell(c, where, text, analysis, step)
    return analysis


def _environment(c: Context, where: Place, text: str) -> bool:
    """Tells `${NAME}` where nothing is filled in: what stands there is in the journal, and in prompts."""
    named = list(_VARIABLE.finditer(text))
    if not named:
        return False
    found = next((one for one in named if one[1] in c.sop.secrets), named[0])
    secret = found[1] in c.sop.secrets
    c.say("secret-misplaced", where, f"`{found[0]}` is not replaced here: " + (
        "a secret stands in no value, which the journal keeps and prompts show" if secret else
        "expressions know inputs and artifacts, and no variable of the environment"),
        "hand it over in `env` or `headers` of the tool that needs it" if secret else
        f"declare an input and write its name: `inputs: {{{found[1].lower()}: string}}`", inside=_found(text, found[0]))
    return True


def _tell(c: Context, where: Place, text: str, analysis: Analysis, step: str) -> None:
    c.analyses.append((step, analysis))
    for finding in analysis.findings:
        code, message, mend = explained(c, finding, text, step)
        if code == "unknown-include" and c.template_missing:
            continue                                      # why the template is not there was told while reading
        if code:
            c.say(code, where, message, mend, inside=(finding.line, finding.column))
    if step:
        _parts_read(c, where, text, analysis, step)


def explained(c: Context, finding: Finding, text: str, step: str) -> tuple[str, str, str]:
    """The finding's code, message and mend, put in terms of the SOP where it is about an artifact's name."""
    if finding.code != UNKNOWN_NAME:
        return finding.code, finding.message, finding.mend
    name = name_at(text, finding)
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


def name_at(text: str, finding: Finding) -> str:
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
