"""How a role thinks inside one activation: the written form of each strategy, one file each.

What they do stands in `agent/strategies/`, under the same names. Both are loaded when a strategy is first looked up. Installed
packages add more (`plugins.py`); these have both in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError

from metaflow_agents import plugins
from metaflow_agents.errors import UsageError
from metaflow_agents.schema.strategies.base import (
    TYPED_CALLS,
    AnswerExpression,
    Evaluator,
    Reference,
    Refers,
    RoleName,
    StrategySpec,
)

CLASSES: Mapping[str, str] = {
    "single": "Single",
    "chain_of_thought": "ChainOfThought",
    "self_consistency": "SelfConsistency",
    "react": "React",
    "reflexion": "Reflexion",
    "tree_of_thoughts": "TreeOfThoughts",
    "plan_and_execute": "PlanAndExecute",
    "task_queue": "TaskQueue",
    "route": "Route",
    "debate": "Debate",
    "hindsight": "Hindsight",
}
"""The class of each, in the module of its name."""
Specs = Mapping[str, type[StrategySpec]]
"""Strategies by name."""


class Unloadable(StrategySpec):
    """What stands for the parameters of an installed strategy that can't be loaded. `WHY`: what is wrong, and the fix."""

    model_config = ConfigDict(extra="allow")
    WHY: ClassVar[str] = ""


def unloadable(spec: type[StrategySpec]) -> str:
    """Why a strategy of an installed package can't be loaded, and the fix; empty where it can."""
    return spec.WHY if issubclass(spec, Unloadable) else ""


def _of_package(plugin: plugins.Plugin) -> type[StrategySpec]:
    try:
        spec = getattr(plugin.load(), "SPEC", None)
        if not (isinstance(spec, type) and issubclass(spec, StrategySpec)):
            raise UsageError(f"`{plugin.name}` (strategies) of {plugin.maker} has no `SPEC`; fix or uninstall "
                             f"{plugin.distribution}")
    except UsageError as error:
        return type("Unloadable", (Unloadable,), {"WHY": str(error)})
    return spec


class InstalledStrategies(Specs):
    """Those of this version and of installed packages, each loaded when it is looked up, and after them those of `more`. One of a
    package that can't be loaded is `Unloadable`.
    """

    def __init__(self, more: Specs) -> None:
        self._more = more

    def __getitem__(self, name: str) -> type[StrategySpec]:
        if name in self._more:
            return self._more[name]
        found: type[StrategySpec]
        if name in CLASSES:
            found = getattr(import_module(f"{__name__}.{name}"), CLASSES[name])
        else:
            found = _of_package(plugins.installed("strategies")[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in CLASSES or name in self._more or name in plugins.installed("strategies")

    def __iter__(self) -> Iterator[str]:
        yield from CLASSES
        yield from (name for name in plugins.installed("strategies") if name not in CLASSES and name not in self._more)
        yield from self._more

    def __len__(self) -> int:
        return sum(1 for _ in self)


STRATEGIES: Specs = InstalledStrategies({})
"""Those that are installed, by name."""


def references(strategy: Mapping[str, Any] | None, known: Specs = STRATEGIES) -> Iterator[Reference]:
    """All that a step's `strategy` refers to; nothing where it is unknown or wrong, which `sop check` tells."""
    for name, parameters in (strategy or {}).items():
        try:
            yield from known[name].model_validate(parameters or {}).references()
        except (KeyError, ValidationError):
            continue


__all__ = [
    "CLASSES",
    "STRATEGIES",
    "TYPED_CALLS",
    "AnswerExpression",
    "Evaluator",
    "InstalledStrategies",
    "Reference",
    "Refers",
    "RoleName",
    "Specs",
    "StrategySpec",
    "references",
    "unloadable",
]
