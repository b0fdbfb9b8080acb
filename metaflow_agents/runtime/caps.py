"""Caps: those that a SOP writes, with those that the command line gives in their place, for the run, its steps and their SOPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.models.port import traits
from metaflow_agents.models.registry import Resolved
from metaflow_agents.runtime.needs import Needs
from metaflow_agents.schema import quantity
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.steps.given import given_inside


def caps(budget: Mapping[str, Any] | None, program: Program) -> dict[str, float]:
    """The caps that a run is given, as numbers: `tokens` and `calls`, `time` in seconds, `usd`; `STEP/tokens` for a step.
    Raises UsageError.
    """
    parse: dict[str, Callable[[object], float]] = {"tokens": quantity.count, "calls": quantity.count, "time": quantity.seconds,
                                                  "usd": quantity.dollars}
    found = {}
    for written, value in (budget or {}).items():
        *steps, measure = written.split("/")
        if measure not in parse:
            raise UsageError(f"`{measure}` is no budget of this version: {did_you_mean(measure, parse)}")
        if steps:
            _refuse_uncapped(program, steps, measure, written)
        try:
            found[written] = float(parse[measure](value))
        except ValueError as error:
            raise UsageError(f"budget `{written}`: {error}") from None
    return found


def _refuse_uncapped(program: Program, steps: Sequence[str], measure: str, written: str) -> None:
    *outer, last = steps
    sop = program.inside(outer).sop
    if last not in sop.steps:
        raise UsageError(f"`--budget {written}=…`: there is no step `{last}` in {sop.sop}; {did_you_mean(last, sop.steps)}")
    if measure != "time" and sop.steps[last].doer not in ("role", "sop"):
        raise UsageError(f"`--budget {written}=…` caps model calls, and `{last}` is a `{sop.steps[last].doer}` step that makes "
                         f"none: write `--budget {'/'.join(steps)}/time=…`, or name a step that asks a model")


def run_budget(program: Program, over: Mapping[str, float]) -> Budget:
    """The caps of the whole run, or of a sub-SOP; `over` are those given on the command line."""
    return (program.sop.budget or Budget()).over(over)


def step_budget(sop: SOP, step: str, over: Mapping[str, float]) -> Budget | None:
    """The caps of a step. Those given for a step that is a SOP are that SOP's, and leave room for it in the step's own."""
    own, given = sop.steps[step].budget, given_inside(over, step)
    if sop.steps[step].sop is not None:
        return own and own.at_least(given)
    return (own or Budget()).over(given)


def refuse_unpriced(program: Program, needs: Mapping[str, Needs], models: Mapping[str, Resolved], over: Mapping[str, float],
                    above: Sequence[tuple[str, Budget | None]] = ()) -> None:
    """Raises UsageError where money is capped and a model under the cap, also in a sub-SOP, costs nobody knows how much.

    `needs` and `models` are by the fingerprints of SOPs, `over` the caps of the command line, `above` what caps the sub-SOP that
    this is.
    """
    sop = program.sop
    whole = [*above, (f"the SOP {sop.sop}" if above else "the run", run_budget(program, over))]
    for step_name, step in sop.steps.items():
        if step.sop is not None:
            refuse_unpriced(program.sops[step.sop], needs, models, given_inside(over, step_name),
                            [*whole, (f"step {step_name}", step_budget(sop, step_name, over))])
    for step_name, role_name, name, embeds in needs[program.fingerprint].models:
        its = step_budget(sop, step_name, over) if step_name in sop.steps else None
        capped = [scope for scope, cap in (*whole, (f"role {role_name}", sop.roles[role_name].budget), (f"step {step_name}", its))
                  if cap is not None and cap.usd is not None]
        model = models[program.fingerprint].models.of(name, role_name)
        if capped and traits(model).unpriced(embeds=embeds):
            raise UsageError(
                f"`budget: {{usd: …}}` of {capped[0]} caps what {model.name} costs, and nobody knows its price: write it as "
                f"`models: {{{name or 'default'}: {{…, price: {{in: …, out: …}}}}}}`, or cap `tokens` instead")
