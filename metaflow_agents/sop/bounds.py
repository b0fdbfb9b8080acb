"""How much a run can do at most: firings, activations and model calls of each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from metaflow_agents.schema.caps import ANSWER_REPAIRS, REFLECTION_QUESTIONS, ROLE_QUESTIONS, TOOL_TURNS, Budget
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.shape import Shape
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import STRATEGIES, TYPED_CALLS, StrategySpec
from metaflow_agents.schema.strategies.workers import tools_in
from metaflow_agents.sop.graph import SOPGraph


@dataclass(frozen=True, slots=True)
class StepBounds:
    """The most that one step can do in a run.

    `calls` are model calls of one activation, all its attempts together; None where its strategy does not say. An answer
    counts as one: calls that go on with one that was cut at its longest length come on top. So does the embedding of what a role
    recalls, beyond one call with the question: how much of it earlier runs left is not known.
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
              strategies: Mapping[str, type[StrategySpec]] = STRATEGIES,
              inner: Mapping[str, Bounds | None] | None = None) -> Bounds:
    """The bounds of a program without unbounded cycles. `items`: step → the shape of the list that its `foreach` walks;
    `inner`: what a step writes as `sop:` → the bounds of that SOP.
    """
    look = program.sop.progress
    again = 1 + look.replans if look is not None and look.makes is not None else 1
    firings = {name: min(most * again, program.sop.steps[name].rounds or most * again)
               for name, most in graph.firing_bounds().items()}
    steps = {name: _step(step, firings[name], items.get(name), _calls(program.sop, step, strategies) if step.sop is None else
                         _of_sop(step, (inner or {}).get(step.sop)))
             for name, step in program.sop.steps.items()}
    totals = [bound.total_calls for bound in steps.values()]
    known = [total for total in totals if total is not None]
    calls = sum(known) if len(known) == len(totals) else None
    if calls is not None and look is not None:
        calls += calls // look.every * TYPED_CALLS
    budget = program.sop.budget or Budget()
    cap = budget.calls
    return Bounds(steps, cap if calls is None else calls if cap is None else min(calls, cap), budget.usd)


def first_answers(program: Program, graph: SOPGraph, items: Mapping[str, Shape],
                  strategies: Mapping[str, type[StrategySpec]] = STRATEGIES) -> dict[str, int]:
    """Step → the most model calls of a run in which no answer has to be mended, no attempt fails and no role calls a tool.

    Steps of which that is not known are left out: those over a list of any length, and SOPs.
    """
    found = {}
    for name, firings in graph.firing_bounds().items():
        step = program.sop.steps[name]
        calls = _thought(step, strategies) if step.role is not None else None
        walked = items.get(name)
        most = 1 if step.foreach is None else walked.schema.get("maxItems") if walked is not None else None
        if calls is not None and isinstance(most, int):
            found[name] = firings * most * calls
    return found


def _thought(step: Step, strategies: Mapping[str, type[StrategySpec]]) -> int | None:
    """The calls of its strategy for one answer, without tools."""
    (name, parameters), = (step.strategy or {"single": {}}).items()
    try:
        return strategies[name].model_validate(parameters or {}).calls(1)
    except (KeyError, ValidationError):
        return None                         # told by a check of its own


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


def _of_sop(step: Step, inner: Bounds | None) -> int | None:
    return None if inner is None or inner.calls is None else (1 + step.retries) * inner.calls


def _calls(sop: SOP, step: Step, strategies: Mapping[str, type[StrategySpec]]) -> int | None:
    """Of one activation: each attempt is an answer and its repairs, then an answer and its repairs for each mended check or
    review, and the verdicts of these reviews.

    Where anybody who works in it has tools each of these may take `TOOL_TURNS` turns before it, and `ROLE_QUESTIONS` questions
    to others. A role that starts others has no bound but its budget. A role that thinks about being stuck does so once before
    each of these, and once after each thing that its strategy did itself and that failed.
    """
    if step.role is None:
        return 0
    tools = tools_in(sop, step, strategies)
    if "start_role" in tools:
        return None
    turns = (1 + TOOL_TURNS if tools or step.talks_to else 1) + (ROLE_QUESTIONS if step.talks_to else 0)
    reflects = step.stuck is not None and "reflect" in step.stuck.then
    turns += TOOL_TURNS if reflects and turns > 1 else 0
    (name, parameters), = (step.strategy or {"single": {}}).items()
    try:
        thinks = strategies[name].model_validate(parameters or {})
    except (KeyError, ValidationError):
        return None                         # told by a check of its own
    answer = thinks.calls(turns)
    if answer is None:
        return None
    reviews = step.review.repairs if step.review else 0
    mended = (step.check.repairs if step.check else 0) + reviews
    thoughts = 1 + mended + thinks.failures() * (1 + mended) if reflects else 0
    judged = (1 + reviews) * TYPED_CALLS if step.review else 0
    who = (step.role,) if step.role in sop.roles else tuple(sop.roles)
    rated = TYPED_CALLS if any(sop.rates(role) for role in who) else 0
    reflects_on = any(sop.roles[role].memory.reflect is not None for role in who)
    rated += (1 + REFLECTION_QUESTIONS) * TYPED_CALLS if reflects_on else 0
    rated += any(sop.roles[role].memory.summary for role in who)
    recalls = [recall for role in who if (recall := sop.roles[role].memory.recall) is not None]
    if any(recall.embedder is not None for recall in recalls):
        rated += 1 + (REFLECTION_QUESTIONS if reflects_on else 0)
    repaired = (1 + mended) * ANSWER_REPAIRS * thinks.mending(turns, form=True) + mended * thinks.mending(turns, form=False)
    return (1 + step.retries) * (answer + repaired + judged + thoughts + rated)
