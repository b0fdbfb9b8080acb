"""A queue of tasks that grows by what comes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from metaflow_agents.schema.strategies.base import TYPED_CALLS, RoleName, StrategySpec


class TaskQueue(StrategySpec):
    """Does the first task of a queue, makes new ones from its result, orders the queue anew, until it is empty; the answer is
    made from the results.
    """

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "create": ("task", "result", "ok", "done", "waiting", "room", "left"), "execute": ("task", "results", "number", "most"),
        "reprioritise": ("task", "done", "waiting", "left"), "answer": ("results", "waiting", "output_format")}

    tasks: Annotated[int, Field(ge=1, le=200, strict=True)] = Field(10, description="tasks that are done at most")
    queue: Annotated[int, Field(ge=1, le=200, strict=True)] = Field(20, description="tasks that wait at most")
    reprioritise: bool = Field(True, description="whether the queue is ordered anew after each task, or done as it was made")
    record: str | None = Field(
        None, min_length=1, description="of a step that makes files: the one that holds each task with its result, and "
                                        "what is open")
    executor: RoleName | None = Field(None, description="a role that does the tasks, by default the step's own")

    def calls(self, answer: int) -> int | None:
        """The first tasks; doing each; after each but the last new ones and their order; the answer."""
        following = TYPED_CALLS * (2 if self.reprioritise else 1)
        return TYPED_CALLS + self.tasks * (answer + TYPED_CALLS - 1) + (self.tasks - 1) * following + answer

    def writes(self) -> Iterator[tuple[str, str]]:
        """The file of the record."""
        if self.record is not None:
            yield "record", self.record

    def failures(self) -> int:
        """Each task."""
        return self.tasks
