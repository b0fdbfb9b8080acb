"""Several answers, and what most of them say."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from metaflow_agents.schema.strategies.base import TYPED_CALLS, AnswerExpression, RoleName, StrategySpec


class SelfConsistency(StrategySpec):
    """Samples at once; the answer that most of them give. Where answers can't be compared a judge chooses."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {"judge": ("answers",)}

    samples: Annotated[int, Field(ge=2, le=200, strict=True)] = Field(5, description="answers that are asked for at once")
    compare: AnswerExpression | None = Field(
        None, description="what of an answer is voted on, as an expression over `answer`; by default the whole of it")
    judge: RoleName | None = Field(None, description="a role that chooses where no answer comes up more often than the others")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="of the samples; by default the model's own")

    def calls(self, answer: int) -> int | None:
        """One for each sample, and the judge's."""
        return self.samples * answer + (TYPED_CALLS if self.judge is not None else 0)
