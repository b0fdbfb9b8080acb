"""Steps that are SOPs: what they are given, and what they make."""

from __future__ import annotations

from collections.abc import Mapping

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts import Analysis
from metaflow_agents.schema.fitting import misfit, turned
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context, Place, made_by
from metaflow_agents.sop.checks.expressions import expression, step_scope
from metaflow_agents.sop.graph import outputs_of


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
            _types(c, name, step, given)
            _output(c, name, step, inner)
            if step.inherits_memory is not None and not any(one.sop.remembers for one in c.program.sops[step.sop].all()):
                c.say("memory-inherited", ("steps", name, "inherits_memory"),
                      f"no role of the SOP `{inner.sop}` recalls, reflects or keeps lessons: memory has no effect there",
                      "remove it, or let a role of it remember: `memory: {recall: {}}`", key=True)


def _inputs(c: Context, name: str, step: Step, inner: SOP) -> None:
    where: Place = ("steps", name, "inputs")
    for given in step.inputs:
        if given not in inner.inputs:
            c.say("sop-input", (*where, given), f"the SOP `{inner.sop}` has no input `{given}`",
                  did_you_mean(given, inner.inputs) if inner.inputs else "it takes none", key=True)
    for wanted, spec in inner.inputs.items():
        if spec.required and wanted not in step.inputs:
            c.say("sop-input", ("steps", name, "sop"), f"the SOP `{inner.sop}` requires the input `{wanted}`",
                  f"add `inputs: {{{wanted}: EXPRESSION}}`")


def _types(c: Context, name: str, step: Step, given: Mapping[str, Analysis | None]) -> None:
    """What each input takes: a folder a set of files, a file what one file holds, any other what its type says."""
    within = c.inner[step.sop or ""]
    for wanted, analysis in given.items():
        spec = within.sop.inputs.get(wanted)
        if spec is None or analysis is None or analysis.findings:
            continue
        takes = within.shape(wanted)
        fault = misfit(analysis.shape, takes if spec.required else Shape.union(takes, Shape("null")))
        if fault is not None:
            mend = {"folder": "give an artifact with `files`", "file": "give a text, or one file of a set of files"}.get(
                str(spec.type), turned(fault))
            c.say("sop-input", ("steps", name, "inputs", wanted),
                  f"of the SOP `{within.sop.sop}`, the input {fault.told(wanted, 'is given')}", mend)


def _output(c: Context, name: str, step: Step, inner: SOP) -> None:
    made = {one.makes.artifact for one in inner.steps.values()}
    outputs = outputs_of(inner)
    several = isinstance(step.output, tuple)
    named = step.output if isinstance(step.output, tuple) else (step.output,) if step.output is not None else ()
    for place, unknown in enumerate(named):
        if unknown not in made:
            c.say("sop-output", ("steps", name, "output", *((place,) if several else ())),
                  f"the SOP `{inner.sop}` makes no `{unknown}`", did_you_mean(unknown, sorted(made)))
    if not made.issuperset(named):
        return
    within = c.inner[step.sop or ""]
    if several:
        fault = misfit(Shape.object_of({one: within.shape(one) for one in named}), made_by(c, step))
        if fault is not None:
            c.say("sop-output", ("steps", name, "makes"), f"the outputs of the SOP `{inner.sop}`, as an object: "
                  f"{fault.told('outputs')}, as `{step.makes.artifact}` is declared", turned(fault) if fault.path else
                  f"declare `{step.makes.artifact}` with `schema: {{{', '.join(f'{one}: …' for one in named)}}}`")
    elif step.output is None and len(outputs) != 1:
        listed = ", ".join(f"`{one}`" for one in outputs) or "nothing"
        c.say("sop-output", ("steps", name, "sop"), f"the SOP `{inner.sop}` gives {listed}: one of it is what `{name}` makes",
              f"add `output: {outputs[0] if outputs else 'NAME'}`")
    else:
        output = (*named, *outputs)[0]
        fault = misfit(within.shape(output), made_by(c, step))
        if fault is not None:
            others = [f"`{one}`" for one in sorted(made - {output}) if misfit(within.shape(one), made_by(c, step)) is None]
            c.say("sop-output", ("steps", name, "makes"), f"of the SOP `{inner.sop}`, the output {fault.told(output)}, as "
                  f"`{step.makes.artifact}` is declared", f"declare `{step.makes.artifact}` as `{output}` is declared there"
                  + (f", or name another `output`: {', '.join(others)}" if others else ""))
