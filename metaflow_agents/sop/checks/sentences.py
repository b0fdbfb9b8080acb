"""Sentences in lists: a comma outside of quotation marks ends an item of `[…]`, and makes two rules of one."""

from __future__ import annotations

import re

from metaflow_agents.sop.checks.context import Context, Place

_JOINING = re.compile(r"(?:so|and|but|or|nor|yet|then|because|since|unless|except|which|who|even|however|otherwise)\b")


def check_sentences(c: Context) -> None:
    """`constraints` of each role of the SOP, as far as they stand in `[…]` without quotation marks."""
    for name, role in c.sop.roles.items():
        where: Place = ("roles", name, "constraints")
        for index, (before, after) in enumerate(zip(role.constraints, role.constraints[1:], strict=False), 1):
            if _goes_on(before, after) and all(c.loaded.places.flow((*where, place)) for place in (index - 1, index)):
                c.say("list-comma", (*where, index), f"`{after}` is an item of its own, since a comma ends an item, and reads "
                      f"like the end of `{before}`", f'put the whole sentence into quotation marks: "{before}, {after}"')


def _goes_on(before: str, after: str) -> bool:
    """Whether an item reads like the rest of a sentence: it begins small where the one before began large, or by a word that
    joins.
    """
    is_open = len(before.split()) > 1 and before[-1] not in ".!?:;"
    return is_open and after[:1].islower() and (before[:1].isupper() or _JOINING.match(after) is not None)
