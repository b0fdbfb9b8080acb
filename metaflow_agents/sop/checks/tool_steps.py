"""Steps that call a tool themselves: one tool, arguments that it takes, and an artifact that can hold what it gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from metaflow_agents.errors import ExpressionError, did_you_mean
from metaflow_agents.policy.judged import judged
from metaflow_agents.prompts import Analysis, evaluate
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.calls import check_function
from metaflow_agents.sop.checks.context import Context, Place, Takes, made_by
from metaflow_agents.sop.checks.expressions import expression, step_scope
from metaflow_agents.sop.checks.tools import unknown

WRITERS = ("write", "edit")
_INSTEAD = {"run": "a command is a step of its own: write `run: COMMAND`",
            "ask_person": "a question to a person is a step of its own: write `human: text`, with the question as `task`",
            "start_role": "a role works in a step of its own: write `role: NAME`"}
_JSON_KINDS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"string"}), "integer": frozenset({"integer"}), "number": frozenset({"integer", "number"}),
    "boolean": frozenset({"boolean"}), "null": frozenset({"null"}), "array": frozenset({"list"}),
    "object": frozenset({"object", "files", "collection"})}
_FIRST = re.compile(r"`([^`.\[]+)")


def check_tool_steps(c: Context) -> None:
    """Each step that calls a tool."""
    known = c.tools(c.program)
    for name, step in c.sop.steps.items():
        if step.tool is None or c.doers.get(name) != "tool":
            continue
        item = c.walked[name].item() if name in c.walked else Shape.any()
        scope = step_scope(c, name, step, item if step.foreach else None)
        analyses = {given: expression(c, ("steps", name, "inputs", given), text, scope, name)
                    for given, text in step.inputs.items()}
        if not _one_tool(c, name, step):
            continue
        _result(c, name, step)
        if step.tool in known:
            _arguments(c, name, step, known[step.tool], analyses)
        elif (spec := c.sop.tools.get(step.tool)) is not None and spec.python is not None:
            _parameters(c, name, step, spec.python, tuple(spec.secrets))
        elif there := [tool for tool in known if tool.startswith(f"{step.tool.partition('.')[0]}.")]:
            c.say("unknown-tool", ("steps", name, "tool"), f"`{step.tool}` is no operation that the SOP chooses",
                  did_you_mean(step.tool, there))


def _one_tool(c: Context, name: str, step: Step) -> bool:
    """Whether it is one that a step can call, as far as its name says."""
    where, tool = ("steps", name, "tool"), step.tool or ""
    if judged(tool, c.sop) is None:
        unknown(c, where, tool)
        return False
    if tool in _INSTEAD:
        c.say("tool-step", where, f"a step can't call `{tool}`", _INSTEAD[tool])
        return False
    source = tool.partition(".")[0]
    if source in (*c.sop.tool_sources, *c.sop.mcp_servers, *c.sop.openapi) and (tool == source or re.search(r"[*?\[]", tool)):
        c.say("tool-step", where, f"`{tool}` may be several tools, and a step calls one", f"name it: `{source}.TOOL`")
        return False
    return True


def _result(c: Context, name: str, step: Step) -> None:
    """That what the tool gives can become the artifact."""
    made = step.makes.artifact
    artifact = c.sop.artifacts.get(made)
    if artifact is None:
        return                                            # told as unknown
    where: Place = ("steps", name, "makes")
    if step.tool == "packages":
        return                                            # `checks/packages.py` looks at it
    if step.parse is not None and step.parse.strip() != "json":
        c.say("bad-parse", ("steps", name, "parse"), f"`{step.parse}` is no way to read what a tool gives", "write `parse: json`")
    elif artifact.files and step.parse is None and _on_files(c, step):
        return
    elif step.tool in WRITERS:
        if not artifact.files or step.parse is not None:
            c.say("tool-step", where, f"`{step.tool}` gives the files that it wrote, and `{made}` "
                  + ("holds files: `parse` reads a text" if artifact.files else "holds none"),
                  "leave `parse` out" if artifact.files else f"declare it as `{made}: {{files: PATTERN}}`")
    elif artifact.files and step.parse is None:
        c.say("tool-step", where, f"`{made}` is a set of files, and `{step.tool}` gives a text",
              "make a text, and the files of it in a `value` step; or write `parse: json` where it gives `{PATH: TEXT}`")
    elif step.parse is None and not made_by(c, step).kinds & {"any", "string"}:
        c.say("tool-step", where, f"`{step.tool}` gives a text, and `{made}` is {made_by(c, step).describe()}",
              "write `parse: json`: the text is read as JSON, and has to fit the schema")


def _on_files(c: Context, step: Step) -> bool:
    """Whether the tool is a function that writes the files itself."""
    spec = c.sop.tools.get(step.tool or "")
    signature = None if spec is None or spec.python is None else (
        check_function(c, ("tools", step.tool or "", "python"), spec.python))
    return signature is not None and bool(signature.of_files)


def _arguments(c: Context, name: str, step: Step, takes: Takes, analyses: Mapping[str, Analysis | None]) -> None:
    """Names, what is missing, values that are written down, and of all others the kind."""
    parameters = takes.parameters
    properties = dict(parameters.get("properties", {}))
    constants: dict[str, Any] = {}
    for given, analysis in analyses.items():
        found = _constant(step.inputs[given], analysis)
        constants[given] = None if found is None else found[0]
        if found is None and given in properties:
            _kind(c, name, given, properties[given], analysis)
            properties[given] = {}
    for fault in takes.faults({**parameters, "properties": properties}, constants):
        first = _FIRST.match(fault)
        place: Place = ("steps", name, "inputs", first[1]) if first else ()
        there = bool(place) and c.has(*place)
        mend = "write what is named here, as an expression" if there else "give it under `inputs`, as an expression"
        c.say("tool-argument", place if there else ("steps", name, "tool"), f"`{step.tool}`: {fault}", mend,
              key=there and first is not None and first[1] not in properties)


def _constant(text: str, analysis: Analysis | None) -> tuple[Any] | None:
    """The value of an expression that depends on nothing."""
    if analysis is None or analysis.findings or analysis.names or analysis.histories:
        return None
    try:
        return (evaluate(text, {}),)
    except ExpressionError:
        return None


def _kind(c: Context, name: str, given: str, schema: Any, analysis: Analysis | None) -> None:
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    wanted = frozenset().union(*(_JSON_KINDS.get(kind, frozenset({"any"})) for kind in (
        [kinds] if isinstance(kinds, str) else kinds or ())))
    if analysis is None or analysis.findings or not wanted or "any" in wanted | analysis.shape.kinds:
        return
    if not analysis.shape.kinds & (wanted | ({"number"} if "integer" in wanted else set())):
        listed = " or ".join([kinds] if isinstance(kinds, str) else [str(kind) for kind in kinds or ()])
        c.say("tool-argument", ("steps", name, "inputs", given),
              f"`{c.sop.steps[name].tool}`: `{given}` is {analysis.shape.describe()}; expected: {listed}",
              "give another value, or turn it into one: `| string`, `| int`")


def _parameters(c: Context, name: str, step: Step, python: str, secrets: tuple[str, ...]) -> None:
    """Names of a function's parameters, as its file tells them."""
    signature = check_function(c, ("tools", step.tool or "", "python"), python)
    if signature is None:
        return
    filled = (*secrets, *signature.of_files)
    known = [one for one in (*signature.required, *signature.optional) if one not in filled]
    for given in step.inputs:
        if given not in known and not signature.takes_any:
            c.say("tool-argument", ("steps", name, "inputs", given), f"`{step.tool}` has no parameter `{given}`",
                  did_you_mean(given, known) if known else "it takes none", key=True)
    for wanted in signature.required:
        if wanted not in step.inputs and wanted not in filled:
            c.say("tool-argument", ("steps", name, "tool"), f"`{step.tool}` wants `{wanted}`",
                  f"add `inputs: {{{wanted}: EXPRESSION}}`")
