"""Caps on money: every model under one has to have a price, or no run begins."""

from __future__ import annotations

from collections.abc import Iterator

from metaflow_agents.schema.sop import EndpointModel, Step
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.taking_part import others


def check_money(c: Context) -> None:
    """Every model that a step asks while money is capped. Prices are looked up only then: that takes a moment."""
    whole = c.sop.budget
    for name, step in c.sop.steps.items():
        for role in _roles(c, name, step):
            caps = (("the SOP", whole), (f"the role `{role}`", c.sop.roles[role].budget), (f"the step `{name}`", step.budget))
            capped = [scope for scope, cap in caps if cap is not None and cap.usd is not None]
            if capped:
                _look(c, *_asked(c, name, step, role), capped[0])


def _roles(c: Context, name: str, step: Step) -> Iterator[str]:
    if c.doers.get(name) == "role":
        yield from dict.fromkeys((*((step.role or "",) if step.role in c.sop.roles else c.sop.roles),
                                  *(role for role in others(step, c.strategies) if role in c.sop.roles)))


def _asked(c: Context, name: str, step: Step, role: str) -> tuple[Place, str]:
    """Where the model of a step is named, and how."""
    if step.model is not None:
        return ("steps", name, "model"), step.model
    written = c.sop.roles[role].model
    return (("roles", role, "model"), written) if written is not None else (("models", "default"), "default")


def _look(c: Context, where: Place, model: str, scope: str) -> None:
    """Says it where a model has an endpoint and no price."""
    found = c.sop.models.get(model)
    where = where if found is None else ("models", model)
    spec, mend = found or c.models.get(model, model), "write it beside `name`: `price: {in: …, out: …}`"
    if isinstance(spec, str):
        other = spec.removeprefix("replay:").partition(",")[2] if spec.startswith("replay:") else spec
        if not other.startswith("openai:"):
            return
        spec = EndpointModel(name=other.removeprefix("openai:"))
        name = "NAME" if found is None else model
        mend = f"name it with its price: `models: {{{name}: {{name: {spec.name}, price: {{in: …, out: …}}}}}}`"
    from metaflow_agents.models.prices import tariff_for

    if tariff_for(spec.name, spec.endpoint, spec.price, spec.parameters) is None:
        at = f" at {spec.endpoint}" if spec.endpoint else ""
        c.say("no-price", where, f"the price of `{spec.name}`{at} is not known, and the budget of {scope} caps money",
              f"{mend}, in US dollars for a million tokens; or cap `tokens` instead")
