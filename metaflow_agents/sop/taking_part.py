"""The roles that take part in a step besides the one that does it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from metaflow_agents.schema.sop import Step
from metaflow_agents.schema.strategies import STRATEGIES, StrategySpec


def others(step: Step, strategies: Mapping[str, type[StrategySpec]] = STRATEGIES) -> tuple[str, ...]:
    """Those that its strategy names, the judge of its review, and those that it may ask; each once. Declared or not."""
    found: list[str] = []
    for name, parameters in (step.strategy or {}).items():
        try:
            given = strategies[name].model_validate(parameters or {})
        except (KeyError, ValidationError):
            continue                        # told by a check of its own
        found += [reference.text for reference in given.references() if reference.refers.to == "role"]
    found += [step.review.role] if step.review is not None else []
    found += step.talks_to
    return tuple(dict.fromkeys(found))
