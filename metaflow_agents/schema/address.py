"""How people name firings and activations in tests: `fix_code`, `fix_code@2`, `write[ann]`, `write@2[ann]`, `write/draft@1`.

The spelling is that of the journal (`keys.py`), less what does not matter: without a round any round is meant, without an item
every item. Each step of a sub-SOP stands behind a `/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

from metaflow_agents.schema.keys import ActivationKey

FORM = "write like `STEP`, `STEP@2`, `STEP[ITEM]` or `STEP@2[ITEM]`; `STEP/INNER` in a sub-SOP"
_PART = re.compile(r"(?P<step>[A-Za-z_][A-Za-z0-9_]*)(?:@(?P<round>[1-9][0-9]{0,5}))?(?:\[(?P<item>[^\]]+)\])?(?:/(?=.)|\Z)")


class Address(NamedTuple):
    """One step of an address; None for what is left open."""

    step: str
    round: int | None = None
    item: str | None = None

    def covers(self, key: ActivationKey) -> bool:
        """Whether an activation is one of those that are meant."""
        return (self.step == key.step and self.round in (None, key.round) and self.item in (None, key.item))


def parse_address(written: str) -> tuple[Address, ...]:
    """The steps of an address, from the run's own one inward. Raises ValueError, saying the form."""
    found: list[Address] = []
    at = 0
    while match := _PART.match(written, at):
        round_, item = match["round"], match["item"]
        found.append(Address(match["step"], None if round_ is None else int(round_), None if item is None else unquote(item)))
        at = match.end()
    if at < len(written) or not found:
        raise ValueError(f"`{written}` names no firing: {FORM}")
    return tuple(found)


def cover(address: Iterable[Address], keys: tuple[ActivationKey, ...]) -> bool:
    """Whether an address means an activation, which a key leads to through others (`keys.activations_in`)."""
    parts = tuple(address)
    return len(parts) == len(keys) and all(part.covers(key) for part, key in zip(parts, keys, strict=True))
