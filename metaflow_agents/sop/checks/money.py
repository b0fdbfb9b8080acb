"""Caps on money: every model under one has to have a price, or no run begins."""

from __future__ import annotations

from collections.abc import Iterator

from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies.workers import workers
from metaflow_agents.sop.checks.context import Context, Place


def check_money(c: Context) -> None:
    """Every model that a step asks while money is capped. Prices are looked up only then: that takes a moment."""
    whole = c.sop.budget
    for name, step in c.sop.steps.items():
        for role in _roles(c, name, step):
            caps = (("the SOP", whole), (f"the role `{role}`", c.sop.roles[role].budget), (f"the step `{name}`", step.budget))
            capped = [scope for scope, cap in caps if cap is not None and cap.usd is not None]
            if capped:
                for where, model in _asked(c, name, step, role):
                    _look(c, where, model, capped[0])
                recall = c.sop.roles[role].memory.recall
                if recall is not None and recall.embedder is not None:
                    _look(c, ("roles", role, "memory", "recall", "embeddings"), recall.embedder, capped[0], embeds=True)


def _roles(c: Context, name: str, step: Step) -> Iterator[str]:
    if c.doers.get(name) == "role":
        yield from workers(c.sop, step, c.strategies)


def _asked(c: Context, name: str, step: Step, role: str) -> Iterator[tuple[Place, str]]:
    """Where each model that a step may ask is named, and how."""
    if step.model_expression is not None:
        yield from ((("models", model), model) for model in c.sop.models)
    elif step.model is not None:
        yield ("steps", name, "model"), step.model
        return
    written = c.sop.roles[role].model
    yield (("roles", role, "model"), written) if written is not None else (("models", "default"), "default")


def _look(c: Context, where: Place, model: str, scope: str, *, embeds: bool = False) -> None:
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
    if spec.python is not None:
        return                              # without a price it is free
    from metaflow_agents.models.prices import tariff_for

    if tariff_for(spec.name, spec.endpoint, spec.price, spec.parameters) is None and not (
            embeds and tariff_for(spec.name, spec.endpoint, spec.price, spec.parameters, embeds=True)):
        at = f" at {spec.endpoint}" if spec.endpoint else ""
        c.say("no-price", where, f"the price of `{spec.name}`{at} is not known, and the budget of {scope} caps money",
              f"{mend}, in US dollars for a million tokens; or cap `tokens` instead")
