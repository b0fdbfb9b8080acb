"""A test of a SOP, as a person writes it under `tests:`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Count, Dollars, Expression, Name, Texts


class Prompted(Value):
    """What the prompts of a step hold, and what they do not."""

    contains: Texts = Field((), description="a text or several: each activation was sent every one of them")
    not_contains: Texts = Field((), description="a text or several: no activation was sent any of them")


class AtMost(Value):
    """What a case may cost."""

    calls: Annotated[int, Field(ge=0, strict=True)] | None = Field(None, description="model calls")
    tokens: Count | None = Field(None, description="tokens, in and out")
    usd: Dollars | None = Field(None, description="US dollars")


class Case(Value):
    """A test of the SOP that `sop test` runs offline."""

    inputs: dict[str, Any] = Field(
        default_factory=dict, description="the inputs; of a file or a folder its path, or path → text written here")
    given: dict[str, Any] = Field(
        default_factory=dict, description="values that stand in for work: of an artifact or a step, `NAME@2` in its second round")
    until: str | None = Field(None, description="the step after which the case ends")
    model: str | dict[Name, str] = Field(
        "dry", description="a model that needs no endpoint: `dry`, `python:…`, `replay:…`; or role → model, and `default`")
    expect: Expression = Field("success", description="`success`, or an expression over the artifacts")
    prompts: dict[str, Prompted] = Field(
        default_factory=dict, description="what prompts hold: `STEP`, `STEP@2`, `STEP[ITEM]` → `contains`, `not_contains`")
    order: tuple[str, ...] = Field((), description="firings, `STEP` or `STEP@2`, each of which comes after the one before it")
    at_most: AtMost = Field(AtMost(), description="what the case may cost")
