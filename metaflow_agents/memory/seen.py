"""What of a memory file somebody sees: numbers, importance and length of memories, in their order. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

UNRATED = 5                         # the importance of a memory that nobody rated: the middle

Row = tuple[int, int | None, int]
"""A memory's number, its importance (None: nobody rated it), and how many tokens it has."""


class Memories:
    """Memories with rising numbers, to which newer ones are added: what a scope sees of other runs."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.numbers = array("q")
        self.rated: dict[float, array[int]] = {}                # importance → numbers
        self.lengths: dict[int, int] = {}
        self.total, self.shortest = 0, 0                        # of the lengths
        self.upto = 0                                           # the last number that was looked at
        self.held: WeakKeyDictionary[object, tuple[int, int]] = WeakKeyDictionary()     # see `Posting.held`
        self._importance = array("d")
        self.add(rows)

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, rows: Iterable[Row]) -> None:
        """Takes in memories with higher numbers, in their order."""
        for number, rating, length in rows:
            importance = float(UNRATED if rating is None else rating)
            if importance not in self.rated:
                self.rated[importance] = array("q")
            self.rated[importance].append(number)
            self.numbers.append(number)
            self._importance.append(importance)
            self.lengths[number] = length
            self.total += length
            self.shortest = length if len(self.numbers) == 1 else min(self.shortest, length)

    def index(self, number: int) -> int:
        """Where a memory of these stands."""
        return bisect_left(self.numbers, number)

    def importance(self, number: int) -> float:
        """That of a memory of these."""
        return self._importance[self.index(number)]

    def rows(self) -> Iterator[Row]:
        """All of them."""
        return zip(self.numbers, map(int, self._importance), self.lengths.values(), strict=True)


class Seen:
    """What a scope sees: memories of other runs, and after them, as the newest, those of its own run in their order there."""

    def __init__(self, others: Memories, own: Sequence[Row] = ()) -> None:
        overlap = {number for number, _, _ in own if number in others.lengths}
        if overlap:                                             # each counts once, where its own run has it
            others = Memories(row for row in others.rows() if row[0] not in overlap)
        self.others = others
        self.own = {number: length for number, _, length in own}
        self._places = {number: len(self.own) - 1 - place for place, number in enumerate(self.own)}
        self._own_importance = {number: float(UNRATED if rating is None else rating) for number, rating, _ in own}

    def __len__(self) -> int:
        return len(self.others) + len(self.own)

    def __contains__(self, number: object) -> bool:
        return number in self.others.lengths or number in self.own

    def __iter__(self) -> Iterator[int]:
        """The numbers, oldest first."""
        yield from self.others.numbers
        yield from self.own

    def newest(self, count: int) -> list[int]:
        """The numbers of so many, oldest first."""
        own = [*self.own][-count:]
        left = count - len(own)
        return [*(self.others.numbers[-left:] if left > 0 else ()), *own]

    def place(self, number: int) -> int:
        """How many are newer than this one of them."""
        if number in self.own:
            return self._places[number]
        return len(self.own) + len(self.others) - 1 - self.others.index(number)

    def importance(self, number: int) -> float:
        """That of one of them."""
        return self._own_importance[number] if number in self.own else self.others.importance(number)

    @property
    def importances(self) -> tuple[float, float]:
        """The least and the greatest; there has to be one."""
        every = {*self.others.rated, *self._own_importance.values()}
        return min(every), max(every)

    def by_importance(self) -> Iterator[Iterator[int]]:
        """The numbers of those that are as important as one another, newest first."""
        yield from (reversed(numbers) for numbers in self.others.rated.values())
        own: dict[float, list[int]] = {}
        for number, importance in self._own_importance.items():
            own.setdefault(importance, []).append(number)
        yield from map(reversed, own.values())

    def length(self, number: int) -> int | None:
        """How many tokens a memory has; None for one that is not seen."""
        found = self.others.lengths.get(number)
        return self.own.get(number) if found is None else found

    @property
    def mean(self) -> float:
        """Of the lengths; 0 where there is nothing."""
        return (self.others.total + sum(self.own.values())) / max(len(self), 1)

    @property
    def shortest(self) -> int:
        """Of the lengths; 0 where there is nothing."""
        return min([*([self.others.shortest] if len(self.others) else []), *self.own.values()], default=0)
