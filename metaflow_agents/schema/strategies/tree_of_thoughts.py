"""A tree of thoughts, searched."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from metaflow_agents.schema.scalars import Expression
from metaflow_agents.schema.strategies.base import TYPED_CALLS, Refers, RoleName, StrategySpec

EXPANSIONS = 100


class TreeOfThoughts(StrategySpec):
    """Thoughts that go on from each other, valued by the model, searched breadth first or depth first; the best way is answered.

    Of the templates, `path` is the thoughts so far, in order; `paths` are several of these.
    """

    PROMPTS: ClassVar[dict[str, tuple[str, ...]]] = {
        "propose": ("path", "thought", "thoughts", "depth"), "sample": ("path", "thought", "depth"),
        "value": ("path", "thought", "depth", "words"), "vote": ("paths", "thought", "depth"),
        "answer": ("path", "output_format", "dead")}

    thought: str = Field("", description="what one thought is, in words: `one arithmetic step, and the numbers that are left`")
    depth: Annotated[int, Field(ge=1, le=50, strict=True)] = Field(3, description="thoughts from the beginning to the answer")
    search: Literal["bfs", "dfs"] = Field(
        "bfs", description="`bfs`: goes on with the best of each depth; `dfs`: the best of each node, back where none is left")
    breadth: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        5, description="how many are continued: of all of a depth in `bfs`, of those from one node in `dfs`")
    generate: Literal["propose", "sample"] = Field(
        "propose", description="`propose`: one call lists thoughts; `sample`: each is free text from a call of its own")
    thoughts: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        5, description="thoughts that go on from one: at most so many proposals, exactly so many samples")
    evaluate: Literal["value", "vote"] = Field(
        "value", description="`value`: each is judged alone, by a word; `vote`: the best of those that compete is named")
    samples: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        3, description="how often each is judged, or voted on; the numbers are summed")
    values: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        {"sure": 20, "likely": 1, "impossible": 0.001}, description="the words of a judgement → what each adds to the value")
    alone: bool = Field(
        False, description="of `value`: who judges sees its prompt alone, and neither the task nor what the step reads")
    finished: Annotated[Expression | None, Refers("expression", ("path",))] = Field(
        None, description="of `value`: an expression over `path`, a way of the full depth, that says in place of a judge "
                          "whether it is right")
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        None, description="only what is valued above it is continued; by default nothing is pruned")
    expansions: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(
        EXPANSIONS, description="nodes that `dfs` goes on from at most; then the deepest and best way so far is answered")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="of thoughts and judgements; by default the model's own")
    judge: RoleName | None = Field(None, description="a role that judges or votes; by default the step's own")
    answer: Literal["asked", "last"] = Field(
        "asked", description="`asked`: one more call, which sees the best way, answers; `last`: its last thought is the answer")

    @field_validator("values")
    @classmethod
    def _choice(cls, values: dict[str, float]) -> dict[str, float]:
        if len(values) < 2 or not all(word.strip() for word in values):
            raise PydanticCustomError("strategy", "`values` are at least two words to choose from")
        return values

    @model_validator(mode="after")
    def _used(self) -> TreeOfThoughts:
        if "expansions" in self.model_fields_set and self.search == "bfs":
            raise PydanticCustomError("strategy", "`expansions` bounds `search: dfs`; `bfs` is bounded by `breadth` and `depth`")
        if "values" in self.model_fields_set and self.evaluate == "vote":
            raise PydanticCustomError("strategy", "`values` are for `evaluate: value`; a vote counts 1")
        if self.evaluate == "vote" and (self.alone or self.finished is not None):
            raise PydanticCustomError("strategy", "`alone` and `finished` are for `evaluate: value`")
        return self

    def calls(self, answer: int) -> int | None:
        """Of each node that is gone on from: what gives its thoughts, and their judgements. Then the answer."""
        opened, frontier = 0, 1
        for _ in range(self.depth):
            opened += frontier
            frontier = min(self.breadth, frontier * self.thoughts) if self.search == "bfs" \
                else frontier * min(self.breadth, self.thoughts)
        opened = opened if self.search == "bfs" else min(opened, self.expansions)
        generated = opened * (TYPED_CALLS if self.generate == "propose" else self.thoughts)
        compared = opened * self.thoughts if self.evaluate == "value" else self.depth if self.search == "bfs" else opened
        return generated + compared * self.samples * TYPED_CALLS + (answer if self.answer == "asked" else 0)
