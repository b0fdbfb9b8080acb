"""Which model each role has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from metaflow_agents.schema.program import Program
from metaflow_agents.schema.role import model_for_role
from metaflow_agents.schema.scalars import NAME_PATTERN
from metaflow_agents.schema.strategies.workers import partners
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.wording import clock


def cast(program: Program, models: Mapping[str, str], path: str = "") -> dict[str, str]:
    """Who asks → which model, in the order of the file: a role, or `ROLE in STEP` where the step names one of its own; a role of
    the sub-SOP that a step is, as `STEP/ROLE`.

    `models` is what the journal says: name → model in words, `model_for_role` where one was given for a role, `*` for everybody
    who is not named; `STEP/NAME` where that is another model in a sub-SOP.
    """
    sop, found = program.sop, dict[str, str]()
    for name, step in sop.steps.items():
        if step.sop is not None:
            found |= cast(program.sops[step.sop], models, f"{path}{name}/")
        if step.role is None:
            continue
        plain = re.fullmatch(NAME_PATTERN, step.role) is not None
        for role in [step.role, *partners(step)] if plain else list(sop.roles):
            named = step.model or (sop.roles[role].model if role in sop.roles else None)
            chosen = f"as `{step.model_expression}` says" if step.model_expression else ""
            names = ["*"] if chosen else [*([named] if named else []), model_for_role(role), *([] if named else ["default"]), "*"]
            asked = next((models[place] for one in names for place in (f"{path}{one}", one) if place in models), chosen)
            found[path + (role if step.model is None else f"{role if plain else 'any role'} in {name}")] = asked
    return {who: model for who, model in found.items() if model}


def cast_told(program: Program, models: Mapping[str, str]) -> list[str]:
    """A line for each model: `dry` where everybody has it, else `engineer, architect: openai:NAME`."""
    found = cast(program, models)
    if len(set(found.values())) <= 1:
        return list(dict.fromkeys(found.values()))
    by_model: dict[str, list[str]] = {}
    for who, model in found.items():
        by_model.setdefault(model, []).append(who)
    return [f"{', '.join(who)}: {model}" for model, who in by_model.items()]


def cast_lines(program: Program, models: Mapping[str, str], at: float, page: Page) -> list[str]:
    """Who has which model, at a run's start. Where everybody has the same one, the run's first minute says it already."""
    told = cast_told(program, models)
    return [page.fitted(f"{clock(at)}  {safe(line)}") for line in told] if len(told) > 1 else []
