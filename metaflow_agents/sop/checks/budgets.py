"""Caps on calls that the bounds of the steps exceed by much: such a run ends at its cap, in the middle of its loops."""

from __future__ import annotations

from collections.abc import Mapping

from metaflow_agents.schema.caps import Budget
from metaflow_agents.sop.bounds import first_answers
from metaflow_agents.sop.checks.context import Context, Place
from metaflow_agents.sop.graph import SOPGraph

TOO_MUCH = 20
"""How many times its cap a bound may be. A cap below the bound is what caps are for: loops and searches end early. The
largest among the SOPs that ship is 6.7 (`tree_of_thoughts.yaml`), and it works; all others are below 1. The bound counts
each first answer only: what is mended, retried or done with tools comes on top. At three times the largest that works,
`rounds` and `budget` were not written for each other."""


def check_budgets(c: Context, graph: SOPGraph) -> None:
    """The SOP's own cap on calls, and those of roles and steps. Only of a graph whose cycles have bounds."""
    calls = first_answers(c.program, graph, c.walked, c.strategies)
    for name, step in c.sop.steps.items():
        if name in calls and c.own("steps", name, "budget"):
            _look(c, ("steps", name, "budget"), step.budget, {name: calls[name]})
    capped = {name: min(most, _cap(c.sop.steps[name].budget, most)) for name, most in calls.items()}
    for role, written in c.sop.roles.items():
        theirs = {name: most for name, most in capped.items() if c.sop.steps[name].role == role}
        _look(c, ("roles", role, "budget"), written.budget, theirs)
    _look(c, ("budget",), c.sop.budget, capped)


def _cap(budget: Budget | None, otherwise: int) -> int:
    return otherwise if budget is None or budget.calls is None else budget.calls


def _look(c: Context, where: Place, budget: Budget | None, calls: Mapping[str, int]) -> None:
    most = sum(calls.values())
    if budget is None or budget.calls is None or most <= TOO_MUCH * budget.calls or not c.has(*where, "calls"):
        return
    largest = max(calls, key=lambda name: calls[name])
    c.say("budget-exceeded", (*where, "calls"),
          f"the steps under `calls: {budget.calls}` may make {most:,} calls even if every first answer is taken"
          + (f", {calls[largest]:,} of them in `{largest}`" if len(calls) > 1 else ""),
          f"lower `rounds`, the lists or the strategy of `{largest}`, or raise `calls` to {most} "
          f"(from {-(-most // TOO_MUCH)} on nothing is said)")
