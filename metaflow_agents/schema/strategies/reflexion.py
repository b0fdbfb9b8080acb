"""Trials, each anew, and after a failed one a lesson in words for the next."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from metaflow_agents.schema.strategies.base import Evaluator, StrategySpec


class Reflexion(StrategySpec):
    """A trial and its evaluation; where it failed, a lesson in words, which stands in the prompt of the next, fresh trial."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "trial": ("lessons", "output_format"), "reflect": ("answer", "told", "lessons")}
    LEARNS: ClassVar[bool] = True

    evaluator: Evaluator = Field(
        description="who says whether a trial is good: `{run: COMMAND}` on the answer's files (exit code 0), `{role: NAME}`, or "
                    "`{assert: EXPRESSION}` over what the step reads and `answer`")
    trials: Annotated[int, Field(ge=1, le=50, strict=True)] = Field(3, description="trials at most")
    lessons: Annotated[int, Field(ge=1, le=50, strict=True)] = Field(3, description="the last lessons that stand in the prompt")
    unsolved: Literal["fail", "last"] = Field(
        "fail", description="where no trial was good: `fail`, and the attempt has failed; `last`, and the last answer is taken")

    def calls(self, answer: int) -> int | None:
        """Of each trial its answer and evaluation; of each but the last a lesson."""
        return self.trials * (answer + self.evaluator.calls) + self.trials - 1

    def failures(self) -> int:
        """Each trial but the last."""
        return self.trials - 1
