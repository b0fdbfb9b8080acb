"""Who works in a step: its role, those that its strategy names, the judge of its review, those that it may ask."""

from __future__ import annotations

from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import STRATEGIES, Specs, references


def thinkers(step: Step, known: Specs = STRATEGIES) -> tuple[str, ...]:
    """The roles that a step's strategy names, each once, in the order written. They may not exist."""
    return tuple(dict.fromkeys(one.text for one in references(step.strategy, known) if one.refers.to == "role"))


def partners(step: Step, known: Specs = STRATEGIES) -> tuple[str, ...]:
    """All roles that take part in a step besides the one that does it, each once. They may not exist."""
    judge = () if step.review is None else (step.review.role,)
    return tuple(dict.fromkeys((*thinkers(step, known), *judge, *step.talks_to)))


def workers(sop: SOP, step: Step, known: Specs = STRATEGIES) -> tuple[str, ...]:
    """All roles that may work in a step: its own, or any where an expression names it, and those that take part besides."""
    if step.role is None:
        return ()
    own = (step.role,) if step.role in sop.roles else tuple(sop.roles)
    return tuple(dict.fromkeys((*own, *(role for role in partners(step, known) if role in sop.roles))))


def tools_in(sop: SOP, step: Step, known: Specs = STRATEGIES) -> tuple[str, ...]:
    """The tools, as they are written, that any of those may use who work in a step. Who judges or is asked uses none."""
    named = (role for role in thinkers(step, known) if role in sop.roles and role != step.role)
    return tuple(dict.fromkeys((*sop.tools_of(step), *(tool for role in named for tool in sop.roles[role].tools))))
