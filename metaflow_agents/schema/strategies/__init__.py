"""How a role thinks inside one activation: the written form of each strategy, one file each.

What they do stands in `agent/strategies/`, under the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from metaflow_agents.schema.strategies.base import (
    TYPED_CALLS,
    AnswerExpression,
    Evaluator,
    Reference,
    Refers,
    RoleName,
    StrategySpec,
)
from metaflow_agents.schema.strategies.chain_of_thought import ChainOfThought
from metaflow_agents.schema.strategies.debate import Debate
from metaflow_agents.schema.strategies.hindsight import Hindsight
from metaflow_agents.schema.strategies.plan_and_execute import PlanAndExecute
from metaflow_agents.schema.strategies.react import React
from metaflow_agents.schema.strategies.reflexion import Reflexion
from metaflow_agents.schema.strategies.route import Route
from metaflow_agents.schema.strategies.self_consistency import SelfConsistency
from metaflow_agents.schema.strategies.single import Single
from metaflow_agents.schema.strategies.solver import Solver
from metaflow_agents.schema.strategies.task_queue import TaskQueue
from metaflow_agents.schema.strategies.tree_of_thoughts import TreeOfThoughts

Specs = Mapping[str, type[StrategySpec]]
"""Strategies by name."""

STRATEGIES: Specs = {
    "single": Single,
    "chain_of_thought": ChainOfThought,
    "self_consistency": SelfConsistency,
    "react": React,
    "reflexion": Reflexion,
    "tree_of_thoughts": TreeOfThoughts,
    "plan_and_execute": PlanAndExecute,
    "task_queue": TaskQueue,
    "route": Route,
    "debate": Debate,
    "solver": Solver,
    "hindsight": Hindsight,
}
"""Those of this version, by name."""


def references(strategy: Mapping[str, Any] | None, known: Specs = STRATEGIES) -> Iterator[Reference]:
    """All that a step's `strategy` refers to; nothing where it is unknown or wrong, which `sop check` tells."""
    for name, parameters in (strategy or {}).items():
        try:
            yield from known[name].model_validate(parameters or {}).references()
        except (KeyError, ValidationError):
            continue


__all__ = ["STRATEGIES", "TYPED_CALLS", "AnswerExpression", "Evaluator", "Reference", "Refers", "RoleName", "Specs",
           "StrategySpec", "references"]
