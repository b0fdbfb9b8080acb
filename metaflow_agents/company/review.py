"""What who takes a program over minds about it: `review.json`, written before the changes and in the same answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from metaflow_agents import foreign_json
from metaflow_agents.company.steps import product_faults

REVIEW = "review.json"


class Mistaken(BaseModel):
    """A use that asks for what nobody promised."""

    model_config = ConfigDict(extra="forbid")
    use: str
    why: str


class Remark(BaseModel):
    """One thing that is minded, as whom."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    by: Literal["user", "security", "tester", "maintainer"] = Field(alias="as")
    cost: Literal["blocker", "major", "minor"]
    path: str
    what: str
    seen: str
    instead: str


class Review(BaseModel):
    """All of it, the most costly first."""

    model_config = ConfigDict(extra="forbid")
    mistaken: list[Mistaken]
    remarks: list[Remark] = Field(max_length=10)


async def revision_faults(product: Mapping[str, str | bytes], brief: Mapping[str, Any], libraries: Sequence[str]) -> list[str]:
    """What `product_faults` tells, and why `review.json` is none."""
    return [*_faults(product), *await product_faults(product, brief, libraries)]


def review(product: Mapping[str, str | bytes]) -> dict[str, Any]:
    """What `review.json` says, with `mistaken` and `remarks`. Raises ValueError where it is none."""
    return Review.model_validate(foreign_json.read(str(product[REVIEW]))).model_dump(by_alias=True)


def _faults(product: Mapping[str, str | bytes]) -> list[str]:
    if not isinstance(product.get(REVIEW), str):
        return [f"`{REVIEW}` is missing; write it as the task shows it"]
    try:
        review(product)
    except ValidationError as error:
        return [f"`{REVIEW}`: {'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:10]]
    except ValueError as error:
        return [f"`{REVIEW}`: {error}"]
    return []
