"""How a role thinks inside one activation: the written form of each strategy, one file each.

What they do stands in `agent/strategies/`, under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from metaflow_agents.schema.strategies.self_consistency import SelfConsistency
from metaflow_agents.schema.strategies.single import Single
from metaflow_agents.schema.strategies.solver import Solver

STRATEGIES: Mapping[str, type[StrategySpec]] = {
    "single": Single,
    "chain_of_thought": ChainOfThought,
    "self_consistency": SelfConsistency,
    "solver": Solver,
}
"""Those of this version, by name."""

__all__ = ["STRATEGIES", "TYPED_CALLS", "AnswerExpression", "Evaluator", "Reference", "Refers", "RoleName", "StrategySpec"]
