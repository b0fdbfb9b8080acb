"""In which memories a token stands and how often, and the memories that BM25 finds best.

What is scored is decided as MaxScore decides it: tokens are walked from the one that can give most to the one that can give
least, and once those that are left can't lift another memory among the best, they are looked up only in those that were met and
may still be among the best. The best are then scored anew, token by token in the order of the question, so that the figures are
those of scoring all.
Source: Turtle and Flood, "Query evaluation: strategies and optimizations" (Information Processing & Management 31, 1995);
Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from metaflow_agents.memory.seen import Seen

_K1, _B = 1.2, 0.75                 # of BM25, as FTS5 has them
_SLACK = 1 + 1e-9                   # sums in another order differ in their last digits


class Posting:
    """The memories that hold a token, by rising numbers, and how often each holds it."""

    def __init__(self, numbers: Iterable[int], counts: Iterable[int]) -> None:
        self.numbers, self.counts = array("q", numbers), array("l", counts)
        self.most = max(self.counts, default=0)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, rows: Iterable[tuple[int, int]]) -> None:
        """Takes in memories with higher numbers: number, how often."""
        for number, count in rows:
            self.numbers.append(number)
            self.counts.append(count)
            self.most = max(self.most, count)

    def count(self, number: int) -> int:
        """How often a memory holds the token."""
        place = bisect_left(self.numbers, number)
        return self.counts[place] if place < len(self.numbers) and self.numbers[place] == number else 0

    def held(self, seen: Seen) -> int:
        """How many of the memories hold it. What was counted of other runs before is not counted again."""
        done, held = seen.others.held.get(self, (0, 0))
        if done < len(self.numbers):
            held += sum(map(seen.others.lengths.__contains__, self.numbers[done:]))
            seen.others.held[self] = len(self.numbers), held
        return held + sum(map(bool, map(self.count, seen.own)))


@dataclass(frozen=True, slots=True)
class _Term:
    rarity: float
    posting: Posting
    bound: float                    # no memory gets more for it


def ranked(postings: Sequence[Posting], seen: Seen, limit: int) -> dict[int, float]:
    """Number → BM25 of the `limit` best memories that are seen, best first, of equal ones the older. Tokens that half of them
    hold, or more, do not count.
    """
    mean, shortest, total = seen.mean, seen.shortest, len(seen)
    terms = []
    for posting in postings:
        held = posting.held(seen)
        rarity = math.log((total - held + 0.5) / (held + 0.5))
        if held and rarity > 0:
            terms.append(_Term(rarity, posting, _part(rarity, posting.most, shortest, mean) * _SLACK))
    met = _met(terms, seen, mean, limit)
    scores = {number: _score(terms, number, length, mean) for number in met if (length := seen.length(number)) is not None}
    return dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit])


def _part(rarity: float, count: int, length: int, mean: float) -> float:
    return rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / mean))


def _score(terms: Sequence[_Term], number: int, length: int, mean: float) -> float:
    score = 0.0
    for term in terms:
        if count := term.posting.count(number):
            score += _part(term.rarity, count, length, mean)
    return score


def _met(terms: Sequence[_Term], seen: Seen, mean: float, limit: int) -> list[int]:
    """Memories among which the best are."""
    left = sum(term.bound for term in terms)                    # what the terms to come can give
    sums: dict[int, float] = {}
    least = 0.0                                                 # what the last of the best has so far
    length_of: Callable[[int], int | None] = seen.length if seen.own else seen.others.lengths.get
    norm, share = _K1 * (1 - _B), _K1 * _B / mean if mean else 0.0
    for term in sorted(terms, key=lambda term: -term.bound):
        posting, gain = term.posting, term.rarity * (_K1 + 1)
        closed = left < least                                   # none that was not met comes among the best
        if closed and 4 * len(sums) < len(posting):
            for number in sums:
                if count := posting.count(number):
                    sums[number] += gain * count / (count + norm + share * (length_of(number) or 0))
        else:
            for number, count in zip(posting.numbers, posting.counts, strict=True):
                if closed and number not in sums:
                    continue
                length = length_of(number)
                if length is not None:
                    sums[number] = sums.get(number, 0.0) + gain * count / (count + norm + share * length)
        left -= term.bound
        if len(sums) > limit:
            least = heapq.nlargest(limit, sums.values())[-1]
            enough = (least - max(left, 0.0)) / _SLACK
            if left < least:
                sums = {number: found for number, found in sums.items() if found >= enough}
    return [*sums]
