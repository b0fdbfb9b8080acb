"""Thought, action, observation: tools used one at a time, each result read before the next call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from metaflow_agents.schema.strategies.base import StrategySpec

FINISH = "finish"
"""The action that ends it, beside the tools of the step."""


class React(StrategySpec):
    """Thought, action, observation: each message calls exactly one tool, and `finish` with the answer ends it."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "act": ("steps", "plain", "output_format", "last_word"), "correct": ("actions", "finishing", "faults", "left"),
        "best": ("steps", "output_format")}

    max_steps: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        10, description="messages of the role; after that many it is asked for its best answer")
    last_word: str | None = Field(
        None, min_length=1, description="of a step that makes files: the one that holds what `finish` says in words")

    def calls(self, answer: int) -> int | None:
        """One for each step, and the best answer."""
        return self.max_steps + 1

    def mending(self, answer: int, *, form: bool) -> int:
        """Steps as well, but where only the form is mended."""
        return 1 if form else self.max_steps + 1

    def failures(self) -> int:
        """Each step: what its tool gave, or a message that is no action."""
        return self.max_steps

    def writes(self) -> Iterator[tuple[str, str]]:
        """The file of its last word."""
        if self.last_word is not None:
            yield "last_word", self.last_word

    def wrong_tools(self, tools: Sequence[str]) -> Iterator[tuple[str, str]]:
        """It acts with tools, and has one of its own."""
        if not tools:
            yield "`react` acts with tools, and there are none", "give the step or its role `tools`, or use `chain_of_thought`"
        if FINISH in tools:
            yield f"`react` has a tool `{FINISH}` of its own", "give yours another name"
