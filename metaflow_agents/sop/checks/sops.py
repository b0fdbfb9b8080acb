"""Steps that are SOPs: what they are given, and what they make."""

from __future__ import annotations

from collections.abc import Mapping

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import expression, step_scope
from metaflow_agents.sop.graph import outputs_of

_FILES = frozenset({"any", "files", "object"})
_FILE = frozenset({"any", "string"})


def check_sops(c: Context) -> None:
    """Each step that is a SOP, where that SOP was found."""
    for name, step in c.sop.steps.items():
        if step.sop is None:
            continue
        item = c.walked[name].item() if name in c.walked else Shape.any()
        scope = step_scope(c, name, step, item if step.foreach else None)
        given = {one: expression(c, ("steps", name, "inputs", one), text, scope, name) for one, text in step.inputs.items()}
        if step.sop in c.program.sops:
            inner = c.program.sops[step.sop].sop
            _inputs(c, name, step, inner)
            _files(c, name, inner, {one: analysis.shape for one, analysis in given.items() if analysis is not None})
            _output(c, name, step, inner)
            if step.inherits_memory is not None and not any(one.sop.remembers for one in c.program.sops[step.sop].all()):
                c.say("memory-inherited", ("steps", name, "inherits_memory"),
                      f"no role of the SOP `{inner.sop}` recalls, reflects or keeps lessons: nobody there is told of anything",
                      "remove it, or let a role of it remember: `memory: {recall: {}}`", key=True)


def _inputs(c: Context, name: str, step: Step, inner: SOP) -> None:
    where: Place = ("steps", name, "inputs")
    for given in step.inputs:
        if given not in inner.inputs:
            c.say("sop-input", (*where, given), f"the SOP `{inner.sop}` has no input `{given}`",
                  did_you_mean(given, inner.inputs) if inner.inputs else "it takes none", key=True)
    for wanted, spec in inner.inputs.items():
        if spec.required and wanted not in step.inputs:
            c.say("sop-input", ("steps", name, "sop"), f"the SOP `{inner.sop}` wants the input `{wanted}`",
                  f"add `inputs: {{{wanted}: EXPRESSION}}`")


def _files(c: Context, name: str, inner: SOP, given: Mapping[str, Shape]) -> None:
    """A folder of the sub-SOP takes a set of files, a file what one file holds."""
    for wanted, shape in given.items():
        kind = inner.inputs[wanted].type if wanted in inner.inputs else None
        takes, what = {"folder": (_FILES, "a set of files"), "file": (_FILE, "what a file holds")}.get(str(kind), (None, ""))
        if takes is not None and not shape.kinds & takes:
            c.say("sop-input", ("steps", name, "inputs", wanted),
                  f"the input `{wanted}` of the SOP `{inner.sop}` is a {kind} and takes {what}, not {shape.describe()}",
                  "give an artifact with `files`" if kind == "folder" else "give a text, or one file of a set of files")


def _output(c: Context, name: str, step: Step, inner: SOP) -> None:
    made = {one.makes.artifact for one in inner.steps.values()}
    if step.output is not None:
        if step.output not in made:
            c.say("sop-output", ("steps", name, "output"), f"the SOP `{inner.sop}` makes no `{step.output}`",
                  did_you_mean(step.output, sorted(made)))
        return
    outputs = outputs_of(inner)
    if len(outputs) != 1:
        listed = ", ".join(f"`{one}`" for one in outputs) or "nothing"
        c.say("sop-output", ("steps", name, "sop"), f"the SOP `{inner.sop}` gives {listed}: one of it is what `{name}` makes",
              f"add `output: {outputs[0] if outputs else 'NAME'}`")
