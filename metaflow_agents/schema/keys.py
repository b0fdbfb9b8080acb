"""Identity in the journal: `fix_code@3`, `fix_code@3[src/a.py]~0`, `fix_code@3[src/a.py]~0/turn.0/repair.1`.

Inside of a sub-SOP a key begins with the activation that the sub-SOP is: `write@1[ch2]~0/draft@1~0/turn.0`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

_ACTIVATION = re.compile(r"(?P<step>[A-Za-z_]\w*)@(?P<round>\d+)(?:\[(?P<item>[^\]]*)\])?~(?P<attempt>\d+)(?=/|\Z)")
_FIRING = re.compile(r"(?P<step>[A-Za-z_]\w*)@(?P<round>\d+)")


LOOK = "progress"
"""The step under which looks at the run (`progress:`) stand in the journal: `progress@2`."""

EMBED = "/embed."
"""What the keys of calls that embed texts have behind their activation: `write@1~0/embed.6f2a…`."""


CHECKED = "/checked."
"""What the key of an observation has behind its activation where a `check` looked at an answer: `write@1~0/checked.0`."""


REPAIRED = "/repaired"
"""What the key of a call has behind it where its answer was not in its form, and what a repair made of it (`agent/repair.py`)."""


CODE = "code:"
"""What a part of an activation begins with that is a file of Python; behind it its path from the project, or the SOP's folder."""


class ActivationKey(NamedTuple):
    """One item of a firing (or the whole), and which attempt at it."""

    step: str
    round: int
    item: str | None
    attempt: int

    def __str__(self) -> str:
        return f"{self.slot}~{self.attempt}"

    @property
    def firing(self) -> str:
        """`step@round`."""
        return f"{self.step}@{self.round}"

    @property
    def slot(self) -> str:
        """The activation without its attempt: `step@round[item]`."""
        item = "" if self.item is None else f"[{quote(self.item, safe='/._-')}]"
        return f"{self.firing}{item}"


def firing_key(step: str, round_: int) -> str:
    """`step@round`."""
    return f"{step}@{round_}"


@lru_cache(maxsize=4096)
def parse_firing(written: str) -> tuple[str, int]:
    """Step and round of `step@round`. Raises ValueError, saying the form."""
    match = _FIRING.fullmatch(written)
    if not match:
        raise ValueError(f"{written!r} is not a firing: write like fix_code@2")
    return match["step"], int(match["round"])


@lru_cache(maxsize=4096)
def split_inner(written: str) -> tuple[str, str] | None:
    """A key inside of a sub-SOP as the activation that this one is, and the key in there; None for any other key."""
    match = _ACTIVATION.match(written)
    rest = "" if match is None else written[match.end() + 1:]
    return (written[:match.end()], rest) if match is not None and _ACTIVATION.match(rest) else None


class Place(NamedTuple):
    """Where a key lies in a run: its innermost activation (whole key, round, item, attempt), the steps that lead there, its
    firing, the activation around that (empty: none), and what of the key is below the activation.
    """

    activation: str
    round: int
    item: str | None
    attempt: int
    steps: tuple[str, ...]
    firing: str
    around: str
    below: str


def place_of(written: str) -> Place | None:
    """The place of a key: `write@1~0/draft@2[b]~1/turn.0` lies in the activation `write@1~0/draft@2[b]~1` of the firing
    `write@1~0/draft@2`, around which is `write@1~0`; below is `turn.0`. None for what begins with no activation.
    """
    found = _ACTIVATION.match(written)
    if found is None:
        return None
    around, steps, inner = "", [found["step"]], found
    while (following := _ACTIVATION.match(written, inner.end() + 1)) is not None:
        around, inner = written[:inner.end()], following
        steps.append(inner["step"])
    item = inner["item"]
    own = f"{inner['step']}@{inner['round']}"
    return Place(written[:inner.end()], int(inner["round"]), None if item is None else unquote(item), int(inner["attempt"]),
                 tuple(steps), f"{around}/{own}" if around else own, around, written[inner.end() + 1:])


@lru_cache(maxsize=4096)
def activations_in(written: str) -> tuple[ActivationKey, ...]:
    """The activations that a key leads through, from the run's own one inward. Raises ValueError, saying the form."""
    inner = split_inner(written)
    return (parse_activation(written),) if inner is None else (parse_activation(inner[0]), *activations_in(inner[1]))


def slots(written: str) -> tuple[str, ...]:
    """The activations that a key leads through, without their attempts."""
    return tuple(one.slot for one in activations_in(written))


@lru_cache(maxsize=4096)
def steps_in(written: str) -> tuple[str, ...]:
    """The steps that a key leads through, from the run's own one inward: `write`, `draft`. Empty for what is none's."""
    inner = split_inner(written)
    if inner is not None:
        return (*steps_in(inner[0]), *steps_in(inner[1]))
    step, sign, _ = written.partition("@")
    return (step,) if sign else ()


@lru_cache(maxsize=4096)
def parse_activation(written: str) -> ActivationKey:
    """The activation that a key (also of a call inside it) belongs to. Raises ValueError, saying the form."""
    match = _ACTIVATION.match(written)
    if not match:
        raise ValueError(f"{written!r} is not an activation: it looks like fix_code@3[src/a.py]~0")
    item = match["item"]
    return ActivationKey(match["step"], int(match["round"]), None if item is None else unquote(item), int(match["attempt"]))


@lru_cache(maxsize=4096)
def innermost(written: str) -> tuple[tuple[str, ...], str]:
    """The activations that a key leads through, as they are written, the run's own one first; and what stands behind the last.

    Raises ValueError, saying the form.
    """
    found: list[str] = []
    rest = written
    while match := _ACTIVATION.match(rest):
        found.append(match[0])
        rest = rest[match.end() + 1:]
    if not found:
        raise ValueError(f"{written!r} is not an activation: it looks like fix_code@3[src/a.py]~0")
    return tuple(found), rest
