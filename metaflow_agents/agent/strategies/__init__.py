"""How a role thinks inside one activation: one file each, found by name, and loaded when a run first needs it.

A user adds a strategy from Python by `register("name", MyStrategy)`, a package by its entry point (`plugins.py`); SOPs name it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metaflow_agents.agent.strategies.port import Messages, Ran, Said, Strategy, Thinking, Verdict
from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.plugins import installed
from metaflow_agents.schema.strategies import CLASSES, InstalledStrategies, Specs

_REGISTRY: dict[str, type[Strategy[Any]]] = {}
"""Those that were registered. Those of the package are the classes of `CLASSES` with `Strategy` behind, one in each module."""


def register(name: str, strategy: type[Strategy[Any]]) -> None:
    """Makes a strategy known under a name, to runs and checks of this process. Raises UsageError.

    Its `SPEC` holds its parameters in YAML, and says how many model calls an answer takes at most.
    """
    if name in known():
        raise UsageError(f"there is a strategy `{name}` already")
    _REGISTRY[name] = strategy


def known() -> Specs:
    """The parameters of the strategies of this process, by name: those that are installed and those that were registered."""
    return InstalledStrategies({name: strategy.SPEC for name, strategy in _REGISTRY.items()})


def make(name: str, parameters: dict[str, Any]) -> Strategy[Any]:
    """The strategy of that name. Raises UsageError for an unknown one, pydantic's ValidationError for wrong parameters."""
    if name not in known():
        raise UsageError(f"there is no strategy `{name}`: {did_you_mean(name, known())}")
    strategy = _class(name)
    return strategy(strategy.SPEC.model_validate(parameters))


def missing(name: str) -> str:
    """What a strategy needs and is not installed here, with the mend; empty where nothing is missing."""
    return _class(name).missing() if name in known() else ""


def _class(name: str) -> type[Strategy[Any]]:
    if name in _REGISTRY:
        return _REGISTRY[name]
    found: type[Strategy[Any]]
    if name in CLASSES:
        found = getattr(import_module(f"{__name__}.{name}"), f"{CLASSES[name]}Strategy")
    else:
        found = installed("strategies")[name].load()
    return found


__all__ = ["Messages", "Ran", "Said", "Strategy", "Thinking", "Verdict", "known", "make", "missing", "register"]
