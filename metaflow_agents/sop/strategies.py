"""What a check knows of strategies. Those of this version stand here; who registers others hands them to `check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metaflow_agents.sop.targets import Signature


@dataclass(frozen=True, slots=True)
class KnownStrategy:
    """A strategy as a check sees it: its parameters, and its model calls for one answer (None: nobody says)."""

    parameters: Signature = field(default_factory=Signature)
    calls: int | None = None


STRATEGIES: Mapping[str, KnownStrategy] = {"single": KnownStrategy(calls=1), "chain_of_thought": KnownStrategy(calls=2)}
"""The strategies of this version. A repair asks once more, whatever the strategy."""
