"""An answer that follows on from earlier ones, which stand in the prompt from worse to better."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.schema.scalars import Expression
from metaflow_agents.schema.strategies.base import Refers, StrategySpec

EPISODES = 4
"""The most episodes that stand in a prompt: Algorithm Distillation works with two to four of them."""


class Hindsight(StrategySpec):
    """Earlier outputs in rising order of their ratings, or earlier episodes in learning order; the answer is to be better."""

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {"outputs": ("earlier", "best", "output_format"),
                                                     "episodes": ("episodes", "output_format")}

    outputs: Annotated[Expression | None, Refers("expression", gives="list")] = Field(
        None, description="a list of earlier outputs, as an expression over what the step reads, such as `history('draft')`")
    ratings: Annotated[Expression | None, Refers("expression", gives="numbers")] = Field(
        None, description="a list of as many numbers: how good each output was; higher is better")
    best: Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)] | None = Field(
        None, description="the rating that is asked for; by default the highest that one of them has")
    episodes: Annotated[Expression | None, Refers("expression", gives="list")] = Field(
        None, description="in place of outputs: a list of earlier episodes, in the order in which they were gone through")
    most: Annotated[int, Field(ge=2, le=50, strict=True)] = Field(
        EPISODES, description="how many of them stand in the prompt: of outputs those with the highest ratings, "
                              f"of episodes (2 to {EPISODES}) the last")

    @model_validator(mode="after")
    def _one(self) -> Hindsight:
        if (self.outputs is None) == (self.episodes is None):
            raise PydanticCustomError("strategy", "hindsight is of exactly one of `outputs` and `episodes`")
        if (self.outputs is None) != (self.ratings is None):
            raise PydanticCustomError("strategy", "`outputs` and `ratings` belong together: a rating for each output")
        if self.outputs is None and self.best is not None:
            raise PydanticCustomError("strategy", "`best` is a rating, and episodes have none: leave it out")
        if self.episodes is not None and self.most > EPISODES:
            raise PydanticCustomError("strategy", "{told}", {"told": f"`most` is 2 to {EPISODES} episodes"})
        return self

    def calls(self, answer: int) -> int | None:
        """That of the answer."""
        return answer
