"""A plan first, then its tasks."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from metaflow_agents.schema.strategies.base import TYPED_CALLS, RoleName, StrategySpec


class PlanAndExecute(StrategySpec):
    """A plan of tasks that say what they need and what they make; those that can be done are done side by side, and the answer
    is made from their results.
    """

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "plan": ("room", "tools"), "replan": ("room", "tools", "finished", "failed", "waiting"),
        "execute": ("task", "results", "clashes"), "answer": ("results", "clashes", "output_format")}

    tasks: Annotated[int, Field(ge=1, le=200, strict=True)] = Field(20, description="tasks that are begun at most")
    parallel: Annotated[int, Field(ge=1, le=200, strict=True)] = Field(
        8, description="tasks at once at most; where more could be done, those of most value for their effort come first")
    replans: Annotated[int, Field(ge=0, le=20, strict=True)] = Field(2, description="new plans at most after tasks that failed")
    every: Annotated[int, Field(ge=1, le=200, strict=True)] | None = Field(
        None, description="tasks after which what is left is planned anew; by default only where one failed")
    executor: RoleName | None = Field(None, description="a role that does the tasks, by default the step's own")

    def calls(self, answer: int) -> int | None:
        """One for each plan, each task, and the answer; plans and results of tasks are repaired."""
        plans = 1 + self.replans + (0 if self.every is None else self.tasks // self.every)
        return plans * TYPED_CALLS + self.tasks * (answer + TYPED_CALLS - 1) + answer

    def failures(self) -> int:
        """Each new plan after tasks that failed."""
        return self.replans
