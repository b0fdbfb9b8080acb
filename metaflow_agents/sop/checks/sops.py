"""Steps that are SOPs: what they are given, and what they make."""

from __future__ import annotations

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import PATHS, SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.checks.expressions import expression, step_scope
from metaflow_agents.sop.graph import outputs_of


def check_sops(c: Context) -> None:
    """Each step that is a SOP, where that SOP was found."""
    for name, step in c.sop.steps.items():
        if step.sop is None:
            continue
        item = c.walked[name].item() if name in c.walked else Shape.any()
        scope = step_scope(c, name, step, item if step.foreach else None)
        for given, text in step.inputs.items():
            expression(c, ("steps", name, "inputs", given), text, scope, name)
        if step.sop in c.program.sops:
            inner = c.program.sops[step.sop].sop
            _inputs(c, name, step, inner)
            _output(c, name, step, inner)


def _inputs(c: Context, name: str, step: Step, inner: SOP) -> None:
    where: Place = ("steps", name, "inputs")
    for given in step.inputs:
        if given not in inner.inputs:
            c.say("sop-input", (*where, given), f"the SOP `{inner.sop}` has no input `{given}`",
                  did_you_mean(given, inner.inputs) if inner.inputs else "it takes none", key=True)
    for wanted, spec in inner.inputs.items():
        if spec.type in PATHS and (spec.required or wanted in step.inputs):
            c.say("sop-input", (*where, wanted) if c.has(*where, wanted) else ("steps", name, "sop"),
                  f"the input `{wanted}` of the SOP `{inner.sop}` is a {spec.type}, which a person gives at the start of a run",
                  "let that SOP take it as a `string` or another schema")
        elif spec.required and wanted not in step.inputs:
            c.say("sop-input", ("steps", name, "sop"), f"the SOP `{inner.sop}` wants the input `{wanted}`",
                  f"add `inputs: {{{wanted}: EXPRESSION}}`")


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
