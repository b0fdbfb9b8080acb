"""How people name firings and activations: `fix_code`, `fix_code@2`, `write[ann]`, `write@2[ann]`, `write/draft@1`.

The spelling is that of the journal (`keys.py`), less what does not matter: without a round any round is meant, without an item
every item. Each step of a sub-SOP stands behind a `/`. In an item `%` and `]` may be written `%25` and `%5D`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from metaflow_agents.schema.keys import ActivationKey, parse_activation, split_inner

FORM = "write like `STEP`, `STEP@2`, `STEP[ITEM]` or `STEP@2[ITEM]`; `STEP/INNER` in a sub-SOP"
_PART = re.compile(r"(?P<step>[A-Za-z_][A-Za-z0-9_]*)(?:@(?P<round>[1-9][0-9]{0,5}))?"
                   r"(?:\[(?P<item>.+?)\])?(?:/(?=[A-Za-z_])|\Z)", re.DOTALL)


class Address(NamedTuple):
    """One step of an address; None for what is left open."""

    step: str
    round: int | None = None
    item: str | None = None

    def covers(self, key: ActivationKey | Address) -> bool:
        """Whether an activation is one of those that are meant."""
        return (self.step == key.step and self.round in (None, key.round) and self.item in (None, key.item))

    def __str__(self) -> str:
        """As `parse_address` reads it."""
        item = "" if self.item is None else f"[{self.item.replace('%', '%25').replace(']', '%5D')}]"
        return f"{self.step}{'' if self.round is None else f'@{self.round}'}{item}"


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


@lru_cache(maxsize=4096)
def address_of(key: str) -> tuple[Address, ...]:
    """Where a key of the journal stands (a firing's, an activation's, or that of a call in one), from the run's own step inward.

    Empty for a key that is no step's.
    """
    inner = split_inner(key)
    if inner is not None:
        return (*address_of(inner[0]), *address_of(inner[1]))
    try:
        at = parse_activation(key)
    except ValueError:
        step, sign, round_ = key.partition("@")
        return (Address(step, int(round_) if round_.isdecimal() else None),) if sign else ()
    return (Address(at.step, at.round, at.item),)


def lies_in(place: Sequence[Address], address: Sequence[Address]) -> bool:
    """Whether what stands at `place` belongs to what an address names, also where it stands further inside."""
    return len(place) >= len(address) and all(part.covers(one) for part, one in zip(address, place, strict=False))


def alike(place: Sequence[Address], address: Sequence[Address]) -> str:
    """The address of a place, as far in and as exact as another one is; empty where it leads through other steps."""
    if len(place) < len(address) or any(part.step != one.step for part, one in zip(address, place, strict=False)):
        return ""
    if any(part.item is not None and one.item is None for part, one in zip(address, place, strict=False)):
        return ""
    return "/".join(str(Address(one.step, None if part.round is None else one.round, None if part.item is None else one.item))
                    for part, one in zip(address, place, strict=False))


def cover(address: Iterable[Address], keys: tuple[ActivationKey, ...]) -> bool:
    """Whether an address means an activation, which a key leads to through others (`keys.activations_in`)."""
    parts = tuple(address)
    return len(parts) == len(keys) and all(part.covers(key) for part, key in zip(parts, keys, strict=True))
