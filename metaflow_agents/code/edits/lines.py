"""The lines of a text, and what two sequences of lines have in common."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

_END = re.compile(r"(\r\n|\n)")
TYPOGRAPHIC = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-",
                             "\u2026": "..."})


@dataclass(frozen=True)
class File:
    """The lines of a text and what ends each: the last one has no end, and is empty where the text ends with one."""

    lines: tuple[str, ...]
    ends: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> File:
        """The lines of a text, however they end, on Unix or on Windows."""
        parts = _END.split(text)
        return cls(tuple(parts[::2]), (*parts[1::2], ""))

    @property
    def text(self) -> str:
        """The text, byte for byte as it was read where nothing was changed."""
        return "".join(line + end for line, end in zip(self.lines, self.ends, strict=True))

    @property
    def end(self) -> str:
        """What a new line ends with."""
        return self.ends[0] or "\n"

    @cached_property
    def whole(self) -> str:
        """The lines with a line end before, between and behind them."""
        return "\n".join(("", *self.lines, ""))

    @cached_property
    def filled(self) -> list[tuple[int, str]]:
        """The lines with text: their numbers, and what they are without white space."""
        return [(number, bare) for number, line in enumerate(self.lines) if (bare := squeezed(line))]

    @cached_property
    def bare(self) -> str:
        """The lines with text without white space, as `whole` has them."""
        return "\n".join(("", *(bare for _, bare in self.filled), ""))

    @cached_property
    def where(self) -> dict[str, list[int]]:
        """Line without white space → its places in `filled`."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, (_, bare) in enumerate(self.filled):
            found[bare].append(place)
        return found


def common(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """A common subsequence, as pairs of indices: the lines that each has once, in one order, and what is the same beside them.

    Patience diff, by Bram Cohen: near the longest one where lines differ, and never more than n log n.
    """
    once = [{line for line, count in Counter(lines).items() if count == 1} for lines in (one, other)]
    there = {line: at for at, line in enumerate(other) if line in once[0] & once[1]}
    tops: list[int] = []
    chains: list[tuple[int, int, int]] = []             # index in each, and the pair before it in the longest chain up to here
    ends: list[int] = []
    for at, line in enumerate(one):
        if line in there:
            length = bisect_left(tops, there[line])
            chains.append((at, there[line], ends[length - 1] if length else -1))
            tops[length:length + 1] = [there[line]]
            ends[length:length + 1] = [len(chains) - 1]
    found, last = [], ends[-1] if ends else -1
    while last >= 0:
        at, its, last = chains[last]
        found.append((at, its))
    pairs, left, right = [], 0, 0
    for at, its in [*reversed(found), (len(one), len(other))]:
        while left < at and right < its and one[left] == other[right]:
            pairs.append((left, right))
            left, right = left + 1, right + 1
        behind, its_behind, same = at, its, []
        while behind > left and its_behind > right and one[behind - 1] == other[its_behind - 1]:
            behind, its_behind = behind - 1, its_behind - 1
            same.append((behind, its_behind))
        pairs += [*reversed(same), *([(at, its)] if at < len(one) else [])]
        left, right = at + 1, its + 1
    return pairs


def differences(search: Sequence[str], replace: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """What changes from SEARCH to REPLACE: first line of the one, the line after the last, and the same of the other."""
    found, left, right = [], 0, 0
    for one, other in [*common(search, replace), (len(search), len(replace))]:
        if left < one or right < other:
            found.append((left, one, right, other))
        left, right = one + 1, other + 1
    return found


def squeezed(line: str) -> str:
    """A line without white space, with plain quotation marks and dashes."""
    return "".join(line.translate(TYPOGRAPHIC).split())


def indent_of(line: str) -> str:
    """The spaces and tabs that a line begins with."""
    return line[:len(line) - len(line.lstrip(" \t"))]
