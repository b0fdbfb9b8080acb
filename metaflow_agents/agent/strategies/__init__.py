"""How a role thinks inside one activation: one file each, found by name in a registry.

A user adds a strategy from Python by `register("name", MyStrategy)` and names it in YAML.
"""

from __future__ import annotations

from typing import Any

from metaflow_agents.agent.strategies.chain_of_thought import ChainOfThought
from metaflow_agents.agent.strategies.debate import Debate
from metaflow_agents.agent.strategies.hindsight import Hindsight
from metaflow_agents.agent.strategies.plan_and_execute import PlanAndExecute
from metaflow_agents.agent.strategies.port import Messages, Ran, Said, Strategy, Thinking, Verdict
from metaflow_agents.agent.strategies.react import React
from metaflow_agents.agent.strategies.reflexion import Reflexion
from metaflow_agents.agent.strategies.route import Route
from metaflow_agents.agent.strategies.self_consistency import SelfConsistency
from metaflow_agents.agent.strategies.single import Single
from metaflow_agents.agent.strategies.solver import Solver
from metaflow_agents.agent.strategies.task_queue import TaskQueue
from metaflow_agents.agent.strategies.tree_of_thoughts import TreeOfThoughts
from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.schema.strategies import StrategySpec

_REGISTRY: dict[str, type[Strategy[Any]]] = {
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


def register(name: str, strategy: type[Strategy[Any]]) -> None:
    """Makes a strategy known under a name, to runs and checks of this process. Raises UsageError.

    Its `SPEC` holds its parameters in YAML, and says how many model calls an answer takes at most.
    """
    if name in _REGISTRY:
        raise UsageError(f"there is a strategy `{name}` already")
    _REGISTRY[name] = strategy


def known() -> dict[str, type[StrategySpec]]:
    """The parameters of the strategies of this process, by name: those of the package and those that were registered."""
    return {name: strategy.SPEC for name, strategy in _REGISTRY.items()}


def make(name: str, parameters: dict[str, Any]) -> Strategy[Any]:
    """The strategy of that name. Raises UsageError for an unknown one, pydantic's ValidationError for wrong parameters."""
    if name not in _REGISTRY:
        raise UsageError(f"there is no strategy `{name}`: {did_you_mean(name, _REGISTRY)}")
    strategy = _REGISTRY[name]
    return strategy(strategy.SPEC.model_validate(parameters))


def missing(name: str) -> str:
    """What a strategy needs and is not installed here, with the mend; empty where nothing is missing."""
    return _REGISTRY[name].missing() if name in _REGISTRY else ""


__all__ = ["Messages", "Ran", "Said", "Strategy", "Thinking", "Verdict", "known", "make", "missing", "register"]
