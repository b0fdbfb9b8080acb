"""How much a run can do at most: firings, activations and model calls of each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from metaflow_agents.schema.program import Program
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import ANSWER_REPAIRS, SOP, TOOL_TURNS, Budget, Step
from metaflow_agents.schema.strategies import STRATEGIES, StrategySpec
from metaflow_agents.sop.graph import SOPGraph


@dataclass(frozen=True, slots=True)
class StepBounds:
    """The most that one step can do in a run.

    `calls` are model calls of one activation, all its attempts together; None where its strategy does not say. An answer
    counts as one: calls that go on with one that was cut at its longest length come on top.
    """

    firings: int
    activations: int | str
    """Of one firing: a number, or `per item of design.files`."""
    calls: int | None
    total_calls: int | None
    """In the whole run; None where it depends on how long a list is, or on the strategy."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a run can do; `calls` is None where it depends on how long lists are, or on a strategy.

    `usd` is the SOP's own cap, None where it has none: what calls cost depends on prompts that do not exist yet.
    """

    steps: dict[str, StepBounds]
    calls: int | None
    usd: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Steps in the order of the file."""
        return asdict(self)


def bounds_of(program: Program, graph: SOPGraph, items: Mapping[str, Shape],
              strategies: Mapping[str, type[StrategySpec]] = STRATEGIES) -> Bounds:
    """The bounds of a program without unbounded cycles. `items`: step → the shape of the list that its `foreach` walks."""
    firings = graph.firing_bounds()
    steps = {name: _step(step, firings[name], items.get(name), _calls(program.sop, step, strategies))
             for name, step in program.sop.steps.items()}
    totals = [bound.total_calls for bound in steps.values()]
    known = [total for total in totals if total is not None]
    calls = sum(known) if len(known) == len(totals) else None
    budget = program.sop.budget or Budget()
    cap = budget.calls
    return Bounds(steps, cap if calls is None else calls if cap is None else min(calls, cap), budget.usd)


def _step(step: Step, firings: int, walked: Shape | None, calls: int | None) -> StepBounds:
    activations: int | str = 1
    if step.foreach:
        most = walked.schema.get("maxItems") if walked is not None else None
        activations = most if isinstance(most, int) else f"per item of {step.foreach.in_}"
    total = 0 if calls == 0 or not firings else (
        None if calls is None or not isinstance(activations, int) else calls * firings * activations)
    cap = step.budget.calls if step.budget else None
    if cap is not None and calls != 0:
        total = cap if total is None else min(total, cap)
    return StepBounds(firings, activations, calls, total)


def _calls(sop: SOP, step: Step, strategies: Mapping[str, type[StrategySpec]]) -> int | None:
    """Of one activation: each attempt is an answer and its repairs, then an answer and its repairs for each mended check.

    With tools each of these may take `TOOL_TURNS` turns before it. A role that starts others has no bound but its budget.
    """
    if step.role is None:
        return 0
    tools = sop.tools_of(step)
    if "start_role" in tools:
        return None
    turns = 1 + TOOL_TURNS if tools else 1
    (name, parameters), = (step.strategy or {"single": {}}).items()
    try:
        answer = strategies[name].model_validate(parameters or {}).calls(turns)
    except (KeyError, ValidationError):
        return None                         # told by a check of its own
    if answer is None:
        return None
    checks = step.check.repairs if step.check else 0
    who = (step.role,) if step.role in sop.roles else tuple(sop.roles)
    rating = 1 + ANSWER_REPAIRS if any(sop.rates(role) for role in who) else 0
    return (1 + step.retries) * (answer + (ANSWER_REPAIRS + checks * (1 + ANSWER_REPAIRS)) * turns + rating)
