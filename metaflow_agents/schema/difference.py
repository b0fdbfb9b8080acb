"""A unified difference of two texts in bounded work: `difflib` alone takes hours for texts that somebody made for it.

Lines that stand once in both texts, in the same order in both, hold them together (patience difference, Bram Cohen); what lies
between two of them is compared by `difflib` where it is short, and told whole where it is not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

SHORT = 100
"""Lines between two anchors that are compared each with each."""


class _Bounded(SequenceMatcher[str]):
    """Matching blocks by anchors."""

    a: Sequence[str]
    b: Sequence[str]

    def get_matching_blocks(self) -> list[Match]:
        pairs = list(_pairs(self.a, self.b))
        blocks: list[Match] = []
        for first, second in pairs:
            last = blocks[-1] if blocks else Match(0, 0, 0)
            if blocks and (last.a + last.size, last.b + last.size) == (first, second):
                blocks[-1] = Match(last.a, last.b, last.size + 1)
            else:
                blocks.append(Match(first, second, 1))
        return [*blocks, Match(len(self.a), len(self.b), 0)]


def unified(before: Sequence[str], after: Sequence[str], name: str, other: str, context: int = 3) -> Iterator[str]:
    """The lines of a unified difference, without line ends; none where the texts are equal."""
    head = [f"--- {name}", f"+++ {other}"]
    for group in _Bounded(None, before, after, autojunk=False).get_grouped_opcodes(context):
        yield from head
        head = []
        yield f"@@ -{_span(group[0][1], group[-1][2])} +{_span(group[0][3], group[-1][4])} @@"
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[a:a_end])
            else:
                yield from (f"-{line}" for line in before[a:a_end])
                yield from (f"+{line}" for line in after[b:b_end])


def _span(start: int, end: int) -> str:
    """As `diff -u` writes a range of lines."""
    if end - start == 1:
        return f"{start + 1}"
    return f"{start + 1 if end > start else start},{end - start}"


def _pairs(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of equal lines, rising in both texts."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        yield start, start
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    low_a, low_b = start, start
    for place_a, place_b in [*_anchors(a[start:len(a) - end], b[start:len(b) - end], start), (len(a) - end, len(b) - end)]:
        if 0 < place_a - low_a <= SHORT and 0 < place_b - low_b <= SHORT:
            between = SequenceMatcher(None, a[low_a:place_a], b[low_b:place_b], autojunk=False)
            yield from ((low_a + block.a + step, low_b + block.b + step)
                        for block in between.get_matching_blocks() for step in range(block.size))
        if place_a < len(a) - end:
            yield place_a, place_b
        low_a, low_b = place_a + 1, place_b + 1
    yield from ((len(a) - back, len(b) - back) for back in range(end, 0, -1))


def _anchors(a: Sequence[str], b: Sequence[str], start: int) -> list[tuple[int, int]]:
    """The longest row of lines that stand once in both, rising in both (longest increasing subsequence, by patience sorting)."""
    once_a, once_b = Counter(a), Counter(b)
    where = {line: place for place, line in enumerate(b) if once_b[line] == 1}
    ends: list[int] = []                            # place in b of the last line of the best row of each length
    rows: list[tuple[int, int, int]] = []           # (place in a, place in b, row before it, or -1)
    last: list[int] = []
    for place, line in enumerate(a):
        if once_a[line] == 1 and line in where:
            length = bisect_left(ends, where[line])
            rows.append((place, where[line], last[length - 1] if length else -1))
            ends[length:length + 1] = [where[line]]
            last[length:length + 1] = [len(rows) - 1]
    found: list[tuple[int, int]] = []
    row = last[-1] if last else -1
    while row >= 0:
        place_a, place_b, row = rows[row]
        found.append((start + place_a, start + place_b))
    return found[::-1]
