"""Which memories come to mind: recency, importance and relevance, each brought to 0 to 1, weighed and added.

Source: Park et al., "Generative Agents: Interactive Simulacra of Human Behavior" (UIST 2023), section 4.1. There recency decays
by the hours since a memory was last retrieved; the code that the authors published counts places in the order of memories, and so
does this: a place is the same on every machine and on a resume (docs/decisions/0035).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

UNRATED = 5                         # the importance of a memory that nobody rated: the middle


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much; a weight of 0 leaves it out. `decay`: by how much recency falls with each newer memory."""

    recency: float = 1.0
    importance: float = 1.0
    relevance: float = 1.0
    decay: float = 0.995


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory's number, and what it scores; the three parts are between 0 and 1 and not weighed."""

    seq: int
    score: float
    recency: float
    importance: float
    relevance: float


def best(seen: Sequence[tuple[int, int | None]], relevances: Sequence[Mapping[int, float]], weights: Weights, top: int,
         leave_out: frozenset[int] = frozenset()) -> list[Scored]:
    """The `top` memories that score highest, best first; of equal ones the newer.

    `seen`: number and importance of all that may be recalled, oldest first; the scale of each part is over all of them, those too
    that are to be left out. `relevances`: what each index says, number → any scale, higher is better; what an index does not
    name is as little relevant as can be. Several indexes count alike.
    """
    newest_first = [number for number, _ in reversed(seen)]
    recency = normalised([weights.decay**place for place in range(len(newest_first))])
    importance = normalised([float(UNRATED if rated is None else rated) for _, rated in reversed(seen)])
    relevance = _together([normalised(_values(found, newest_first)) for found in relevances if found], len(newest_first))
    scored = (Scored(number, weights.recency * r + weights.importance * i + weights.relevance * v, r, i, v)
              for number, r, i, v in zip(newest_first, recency, importance, relevance, strict=True) if number not in leave_out)
    return heapq.nlargest(top, scored, key=lambda one: one.score)           # stable: of equal ones the first, which is newer


def normalised(values: Sequence[float]) -> list[float]:
    """Min-max: the least becomes 0, the greatest 1. Where all are equal each is 0.5, as in the authors' code."""
    if not values:
        return []
    least, most = min(values), max(values)
    return [0.5] * len(values) if most == least else [(value - least) / (most - least) for value in values]


def _values(found: Mapping[int, float], numbers: Sequence[int]) -> list[float]:
    """A value for each: what was not found has none of what an index looks for, 0, or the least where that is below."""
    rest = min(0.0, *found.values())
    return [found.get(number, rest) for number in numbers]


def _together(parts: Sequence[Sequence[float]], count: int) -> list[float]:
    return [sum(values) / len(parts) for values in zip(*parts, strict=True)] if parts else [0.0] * count
