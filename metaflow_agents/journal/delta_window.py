"""What a new text shares with the latest ones of its journal: see `delta.py` for how it is stored.

A request of a conversation repeats all that was said before, and an answer stands in a reply, in an artifact and in a memory.
`Window` holds the latest texts of a journal. Places where the same bytes may begin (anchors) are chosen by what stands there, so
that they are found again wherever a text is moved to; from such a place a match is extended in both directions. A request copies
nearly all of the request before it, which copies from the one before that: what is stored grows with what is new.
Sources: A. Tridgell, "Efficient Algorithms for Sorting and Synchronization", 1999, and A. Muthitacharoen et al., "A Low-bandwidth
Network File System", SOSP 2001 (places chosen by content).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import NamedTuple

from metaflow_agents.journal.delta import BEGINNING, SOURCE, Copy, difference, escaped

SMALLEST = 256                      # bytes of a blob that may be a difference: below, the names of its sources cost more than it
_ANCHOR = 32                        # bytes by which a place is known
_SHORTEST = 64                      # bytes of a match
_FEWEST = 128                       # bytes that have to be copied altogether
_HELD = 32 << 20                    # bytes of texts in a window; only a run whose prompts are that long has so much there
_CANDIDATES = 8                     # texts with the same anchor among which the longest match is looked for
_ANCHORS = 1 << 16                  # anchors at hand, before those of texts that are gone are taken out
_TEXTS = 1024                       # texts in a window
_BLOCK = 1 << 16                    # bytes that are compared at once
_FEW = 4                            # stretches of a source that are copied from where they came from


def _bytes_with(low: int, of: int) -> bytes:
    return re.escape(bytes(byte for byte in range(256) if byte % of == low))


# One place in 64 of bytes by chance, one in about 100 of English. The two bytes that decide lie apart: there are languages, and
# encodings, that have no such pair of neighbours.
_PLACE = re.compile(b"[%s](?=(.{7}[%s].{%d}))" % (_bytes_with(7, 16), _bytes_with(1, 4), _ANCHOR - 8), re.DOTALL)


class _Match(NamedTuple):
    """`length` bytes of a text from `start` on are those of a source from `offset` on."""

    number: int
    start: int
    offset: int
    length: int


class _Source:
    """A text at hand, and what of it is copied."""

    def __init__(self, digest: str, data: bytes, copies: list[Copy]) -> None:
        self.digest, self.data, self.copies = digest, data, copies
        self._name = bytes.fromhex(digest[:BEGINNING])
        self._starts = [copy.start for copy in copies]

    def copied(self, match: _Match) -> list[Copy]:
        """A stretch of it. What it has copied itself is copied from there, where that is few stretches, so that reading takes
        fewer steps. Of a long stretch that ends just behind the beginning of another one, or begins just before its end, these
        few bytes are left out: following them from text to text takes longer than writing them.
        """
        start, end, moved = match.offset, match.offset + match.length, match.start - match.offset
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = bisect_left(self._starts, end)
        if first < last and self.copies[first].start + self.copies[first].length <= start:
            first += 1
        if first >= last:
            return [Copy(self._name, match.start, start, match.length)]
        if last - first > _FEW:
            left, right = self.copies[first], self.copies[last - 1]
            if left.start + left.length - start < _SHORTEST:
                start = max(start, left.start + left.length)
            if end - right.start < _SHORTEST:
                end = right.start
            return [Copy(self._name, start + moved, start, end - start)]
        found = []
        for copy in self.copies[first:last]:
            if copy.start - start >= _ANCHOR:
                found.append(Copy(self._name, start + moved, start, copy.start - start))
            begin, until = max(copy.start, start), min(copy.start + copy.length, end)
            if until - begin >= _ANCHOR:
                found.append(Copy(copy.name, begin + moved, copy.offset + begin - copy.start, until - begin))
            start = until
        if end - start >= _ANCHOR:
            found.append(Copy(self._name, start + moved, start, end - start))
        return found


class _Moved(NamedTuple):
    """Where a stretch of a text that is no longer at hand stands now."""

    number: int
    start: int
    offset: int
    length: int

    def then(self, other: _Moved | None) -> _Moved | None:
        """Where what is in both stands, if the other text is gone too."""
        if other is None:
            return self
        first, last = max(self.start, other.offset), min(self.start + self.length, other.offset + other.length)
        if first >= last:
            return None
        return _Moved(other.number, first - other.offset + other.start, first - self.start + self.offset, last - first)


class Window:
    """The latest texts of one journal, at most `held` bytes of them. For one thread at a time.

    A text that goes on from another one takes its place, so that of a conversation the latest request is at hand; what was stored
    whole stays until the window is full.
    """

    def __init__(self, held: int = _HELD) -> None:
        self._most, self._held, self._next = held, 0, 0
        self._sources: OrderedDict[int, _Source] = OrderedDict()
        self._moved: dict[int, _Moved] = {}
        self._known: set[str] = set()
        self._index: dict[bytes, tuple[tuple[int, int], ...]] = {}          # anchor → (source, where in it), the latest last

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def held(self) -> int:
        """Bytes of the texts."""
        return self._held

    def add(self, digest: str, data: bytes) -> bytes | None:
        """Remembers a text that is stored under this digest, for those that follow. Its difference from those before, or None
        where it shares too little with them. What it copies must be stored before it, or with it.
        """
        if len(data) < SMALLEST or len(data) > self._most // 2 or digest in self._known or b"\0" in data[:1024]:
            return None
        as_json = escaped(data)
        text = data if as_json is None else as_json
        anchors: list[tuple[bytes, int]] = []
        matches = self._matches(text, anchors)
        copies = [copy for match in matches for copy in self._sources[match.number].copied(match)]
        copied = sum(copy.length for copy in copies)
        names = list(dict.fromkeys(copy.name for copy in copies))
        if copied < _FEWEST + SOURCE * len(names):
            copies, names, copied = [], [], 0
        if as_json is None and len(data) - copied >= _FEWEST:               # else there is nothing new in it
            self._remember(_Source(digest, data, copies), matches, anchors)
        return difference(text, copies, names, as_json=as_json is not None) if copies else None

    def _remember(self, source: _Source, matches: list[_Match], anchors: list[tuple[bytes, int]]) -> None:
        number = self._next
        self._next += 1
        self._sources[number] = source
        self._known.add(source.digest)
        self._held += len(source.data)
        for anchor, here in anchors:
            places = self._index.pop(anchor, ())                            # it is the latest one now
            self._index[anchor] = (*places[1 - _CANDIDATES:], (number, here))
        for match in matches:
            before = self._sources.get(match.number)
            if before is not None and before.copies and 2 * match.length >= len(before.data):
                self._forget(match.number)
                self._moved[match.number] = _Moved(number, *match[1:])
        while self._held > self._most or len(self._sources) > _TEXTS:
            self._forget(next(iter(self._sources)))
        if len(self._index) > _ANCHORS or len(self._moved) > _TEXTS:
            self._prune()

    def _forget(self, number: int) -> None:
        source = self._sources.pop(number)
        self._held -= len(source.data)
        self._known.discard(source.digest)

    def _prune(self) -> None:
        """Takes out anchors that lead nowhere, and the oldest where there are too many."""
        moved: dict[int, _Moved] = {}
        for number in sorted(self._moved, reverse=True):                    # each has moved to a later one
            step = self._moved[number]
            last = step if step.number in self._sources else step.then(moved.get(step.number)) if step.number in moved else None
            if last is not None:
                moved[number] = last
        self._moved = moved
        living = {anchor: self._living(places) for anchor, places in self._index.items()}
        self._index = {anchor: places for anchor, places in living.items() if places}
        self._moved = {}
        for anchor in list(self._index)[:max(len(self._index) - _ANCHORS // 2, 0)]:
            del self._index[anchor]

    def _living(self, places: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """The places as they are now, each once."""
        found: dict[tuple[int, int], None] = {}
        for number, offset in places:
            while number not in self._sources:
                moved = self._moved.get(number)
                if moved is None or not moved.offset <= offset < moved.offset + moved.length:
                    break
                number, offset = moved.number, offset - moved.offset + moved.start
            else:
                found[number, offset] = None
        return tuple(found)

    def _matches(self, data: bytes, anchors: list[tuple[bytes, int]]) -> list[_Match]:
        """What a text shares with the sources, in order. `anchors`: here go those by which it was looked for."""
        found: list[_Match] = []
        index, sources, search = self._index, self._sources, _PLACE.search
        at = after = 0                                  # `after`: up to where matches go
        while (place := search(data, at)) is not None:
            anchor, here = place[1], place.start(1)
            anchors.append((anchor, here))
            at = here
            if (places := index.get(anchor)) is None:
                continue
            for number, _ in places:
                if number not in sources:
                    index[anchor] = places = self._living(places)
                    break
            match: _Match | None = None
            ahead = 0                                   # how far the best match goes
            for number, offset in reversed(places):
                source = sources[number].data
                if source[offset + ahead:offset + ahead + 1] == data[here + ahead:here + ahead + 1]:    # else it goes no farther
                    match = _longer(match, data, source, number, here, offset, after)
                    ahead = 0 if match is None else match.start + match.length - here
            if match is not None:
                found.append(match)
                after = match.start + match.length
                at = after - 1                          # a place that begins right behind the match
        return found


def _longer(best: _Match | None, data: bytes, source: bytes, number: int, here: int, offset: int, after: int) -> _Match | None:
    """The match around this place if it is longer than the best one."""
    ahead = _common(data, here, source, offset)
    if ahead < _ANCHOR:
        return best
    back = _common_before(data, here, source, offset, min(here - after, offset))
    length = back + ahead
    if length < _SHORTEST or (best is not None and length <= best.length):
        return best
    return _Match(number, here - back, offset - back, length)


def _common(one: bytes, at: int, other: bytes, there: int) -> int:
    """How many bytes are the same from these places on."""
    most = min(len(one) - at, len(other) - there)
    same, step = 0, 256
    while same < most:
        block = other[there + same:there + min(same + step, most)]
        if not one.startswith(block, at + same):
            mine = one[at + same:at + same + len(block)]
            differ = int.from_bytes(block, "little") ^ int.from_bytes(mine, "little")
            return same + ((differ & -differ).bit_length() - 1 >> 3)        # the lowest bit that differs
        same += len(block)
        step = min(4 * step, _BLOCK)
    return most


def _common_before(one: bytes, at: int, other: bytes, there: int, most: int) -> int:
    """How many bytes are the same before these places, `most` at most."""
    same, step = 0, 128
    while same < most:
        step = min(step, most - same)
        block = other[there - same - step:there - same]
        mine = one[at - same - step:at - same]
        if block != mine:
            differ = int.from_bytes(block, "big") ^ int.from_bytes(mine, "big")
            return same + ((differ & -differ).bit_length() - 1 >> 3)
        same += step
        step = min(4 * step, _BLOCK)
    return most
