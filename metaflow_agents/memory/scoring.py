"""Which memories come to mind: recency, importance and relevance, each brought to 0 to 1, weighed and added.

Source: Park et al., "Generative Agents: Interactive Simulacra of Human Behavior" (UIST 2023), section 4.1. There recency decays
by the hours since a memory was last retrieved; the code that the authors published counts places in the order of memories, and so
does this: a place is the same on every machine and on a resume (docs/decisions/0035).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from metaflow_agents.memory.seen import Seen


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


def best(seen: Seen, relevances: Sequence[Mapping[int, float]], weights: Weights, top: int,
         leave_out: frozenset[int] = frozenset()) -> list[Scored]:
    """The `top` memories that score highest, best first; of equal ones the newer.

    `seen`: all that may be recalled; the scale of each part is over all of them, those too that are to be left out. `relevances`:
    what each index says, number → any scale, higher is better; what an index does not name is as little relevant as can be.
    Several indexes count alike.

    Not all are scored: of those that no index names and that are as important as one another, the newest score highest. The
    ranking is that of scoring all (`tests/test_memory_scoring.py`).
    """
    count = len(seen)
    if not count:
        return []
    found = {number for each in relevances for number in each}
    looked_at = [number for number in found if number in seen and number not in leave_out]
    for numbers in seen.by_importance():
        looked_at += islice((number for number in numbers if number not in found and number not in leave_out), top)
    recency = _Scale(weights.decay ** (count - 1), 1.0)
    importance = _Scale(*seen.importances)
    scales = [(each, *_relevance(each, seen)) for each in relevances if each]

    def scored(number: int) -> Scored:
        r, i = recency.of(weights.decay ** seen.place(number)), importance.of(seen.importance(number))
        parts = [scale.of(each.get(number, rest)) for each, scale, rest in scales]
        v = sum(parts) / len(parts) if parts else 0.0
        return Scored(number, weights.recency * r + weights.importance * i + weights.relevance * v, r, i, v)

    newest_first = sorted(looked_at, key=seen.place)
    return heapq.nlargest(top, map(scored, newest_first), key=lambda one: one.score)    # stable: of equal ones the newer


def _relevance(found: Mapping[int, float], seen: Seen) -> tuple[_Scale, float]:
    """The scale of what an index says, and what is said of those that it does not name: none of what it looks for, 0, or the
    least where that is below.
    """
    rest = min(0.0, *found.values())
    values = [value for number, value in found.items() if number in seen]
    if len(values) < len(seen):
        values.append(rest)
    return _Scale(min(values), max(values)), rest


@dataclass(frozen=True, slots=True)
class _Scale:
    """Min-max: the least becomes 0, the greatest 1. Where all are equal each is 0.5, as in the authors' code."""

    least: float
    most: float

    def of(self, value: float) -> float:
        """A value on it."""
        return 0.5 if self.most == self.least else (value - self.least) / (self.most - self.least)
