"""Several roles that answer, read each other's answers, and answer again."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from metaflow_agents.schema.strategies.base import TYPED_CALLS, AnswerExpression, RoleName, StrategySpec


class Debate(StrategySpec):
    """Several roles answer at once, each sees the others' last answers and answers anew; a judge or a vote decides."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {"round": ("answers", "faults", "output_format"), "judge": ("answers",)}

    roles: Annotated[tuple[RoleName, ...], Field(min_length=2, max_length=50)] = Field(
        description="who debates; a role that is named twice debates as two")
    rounds: Annotated[int, Field(ge=1, le=20, strict=True)] = Field(
        2, description="how often each answers, the first time without the others' answers; once all agree nobody is asked again")
    compare: AnswerExpression | None = Field(
        None, description="what of an answer is compared, as an expression over `answer`; by default the whole of it")
    judge: RoleName | None = Field(
        None, description="a role that chooses where they do not agree in the end; without one, what most of them say")

    def calls(self, answer: int) -> int | None:
        """One for each who debates in each round, and the judge's."""
        return len(self.roles) * self.rounds * answer + (TYPED_CALLS if self.judge is not None else 0)

    def failures(self) -> int:
        """Each round but the last."""
        return self.rounds - 1
