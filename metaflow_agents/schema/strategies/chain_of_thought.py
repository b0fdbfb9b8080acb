"""Reasoning first, then the answer that follows from it."""

from __future__ import annotations

from typing import ClassVar

from metaflow_agents.schema.strategies.base import StrategySpec


class ChainOfThought(StrategySpec):
    """Two calls: free reasoning, then the answer in the form of the artifact."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {"reason": (), "answer": ("output_format",)}

    def calls(self, answer: int) -> int | None:
        """One for the reasoning."""
        return 1 + answer
