"""How a role thinks inside one activation: one file each, found by name in a registry.

A user adds a strategy from Python by `register("name", MyStrategy)` and names it in YAML.
"""

from __future__ import annotations

from collections.abc import Callable

from metaflow_agents.agent.strategies.chain_of_thought import ChainOfThought
from metaflow_agents.agent.strategies.port import Ask, Messages, Strategy
from metaflow_agents.agent.strategies.single import Single
from metaflow_agents.errors import UsageError, did_you_mean

_REGISTRY: dict[str, Callable[..., Strategy]] = {"single": Single, "chain_of_thought": ChainOfThought}


def register(name: str, strategy: Callable[..., Strategy]) -> None:
    """Makes a strategy known under a name, to runs and checks of this process. Raises UsageError.

    Its keyword arguments are its parameters in YAML; its `calls` says how many model calls an answer takes at most.
    """
    if name in _REGISTRY:
        raise UsageError(f"there is a strategy `{name}` already")
    _REGISTRY[name] = strategy


def known() -> dict[str, Callable[..., Strategy]]:
    """The strategies by name."""
    return dict(_REGISTRY)


def make(name: str, parameters: dict[str, object]) -> Strategy:
    """The strategy of that name. Raises UsageError for an unknown one or parameters that it does not take."""
    if name not in _REGISTRY:
        raise UsageError(f"there is no strategy `{name}`: {did_you_mean(name, _REGISTRY)}")
    try:
        return _REGISTRY[name](**parameters)
    except TypeError as error:
        raise UsageError(f"strategy `{name}`: {error}") from None


__all__ = ["Ask", "ChainOfThought", "Messages", "Single", "Strategy", "known", "make", "register"]
