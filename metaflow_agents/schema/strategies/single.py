"""One question, one answer."""

from __future__ import annotations

from metaflow_agents.schema.strategies.base import StrategySpec


class Single(StrategySpec):
    """The default: the prompt goes out, the answer comes back."""

    def calls(self, answer: int) -> int | None:
        """That one."""
        return answer
