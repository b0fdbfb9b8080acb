"""A planning problem put into words by a model and solved by a planner."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from metaflow_agents.schema.scalars import Expression, Seconds
from metaflow_agents.schema.strategies.base import AnswerExpression, Refers, StrategySpec


class Solver(StrategySpec):
    """The model writes the task in PDDL, a planner solves it, a validator carries the plan out; faults go back to the model.

    Needs `pip install 'metaflow-agents[solver]'`.
    """

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "translate": ("domain",), "mend": ("faults", "left"), "answer": ("plan", "domain", "problem", "output_format")}
    COMMANDS: ClassVar[bool] = True

    domain: Annotated[Expression, Refers("expression")] | None = Field(
        None, description="the domain in PDDL, as an expression over what the step reads; by default the model writes it too")
    plan: AnswerExpression | None = Field(
        None, description="the plan in an answer, as an expression over `answer`: a text, or a list of actions like "
                          "`(pick-up a)`; it is carried out as well")
    optimal: Annotated[bool, Field(strict=True)] = Field(
        False, description="a plan with as few actions as there can be; by default the first one that is found")
    repairs: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(5, description="how often faults go back, all together")
    time: Seconds = Field(60.0, description="longest time of one search; more than 2 GB of memory it never takes")

    def calls(self, answer: int) -> int | None:
        """The translation, the answer, and as many of either again as there are repairs."""
        return 1 + answer + self.repairs * (answer if self.plan is not None else 1)

    def failures(self) -> int:
        """Each repair."""
        return self.repairs
