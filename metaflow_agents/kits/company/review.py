"""`docs/review.json`: what who takes over a draft minded, and which uses are mistaken themselves.

A role that answers with files can give no typed value beside them; so this value is a file of the product, which is checked like
one. It stays out of the company's repository, whose report tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from metaflow_agents.texts import strict_json as foreign_json

REVIEW = "docs/review.json"
_FORM = '`{"remarks": ["…"], "mistaken": [{"use": "ID", "why": "…"}]}`'


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Mistaken(_Strict):
    use: str
    why: str


class _Review(_Strict):
    remarks: Annotated[list[str], Field(max_length=10)]
    mistaken: list[_Mistaken]


def review_faults(product: Mapping[str, str | bytes], uses: Mapping[str, Any]) -> list[str]:
    """What is wrong with the review of a product whose `uses` these are: it is missing, has another form, excuses no use."""
    try:
        review = _read(product)
    except ValueError as error:
        return [f"`{REVIEW}`: {error}; write {_FORM}"]
    if review is None:
        return [f"`{REVIEW}` is missing; write it: {_FORM}"]
    ids = [use["id"] for use in uses["uses"]]
    return [f"`{REVIEW}`: mistaken: no use is called `{one.use}`; there are {', '.join(ids)}" for one in review.mistaken
            if one.use not in ids]


def mistaken_uses(product: Mapping[str, str | bytes]) -> set[str]:
    """The ids of uses that the review of a product calls mistaken; none where it has no review. Raises ValueError where that has
    another form, which `review_faults` has told before.
    """
    review = _read(product)
    return {one.use for one in review.mistaken} if review else set()


def remarks(product: Mapping[str, str | bytes]) -> list[str]:
    """What its reviewer minded and changed, the most costly first; nothing without a review. Raises ValueError, as above."""
    review = _read(product)
    return review.remarks if review else []


def _read(product: Mapping[str, str | bytes]) -> _Review | None:
    written = product.get(REVIEW)
    if written is None:
        return None
    try:
        return _Review.model_validate(foreign_json.read(written))
    except ValidationError as error:
        told = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, told['loc']))}: {told['msg']}") from None
