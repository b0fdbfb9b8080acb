"""Edits of a text: lines to find, and what stands there instead. Every role's edits go through here, by blocks or by the tool.

Where an edit belongs is looked for in this order, and each step counts only where exactly one place fits:

1. whole lines, to the letter;
2. whole lines that differ in white space, indentation or typographic signs;
3. a part of a line, or of several, to the letter;
4. whole lines of which the first and the last fit, and nearly all between them.

Lines that the edit keeps are taken from the file, byte for byte; new ones get the indentation and the line ends of their place.
What does not fit is told with the nearest lines. The work is linear in the text and the edits: a model's answer decides how many
there are, how long they are, and how often they nearly fit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

HINTS = 20                          # of one answer: who has more faults than that reads the files anew
_COUNTED = 100                      # places of one text that are counted
_NEAR_LINES = 2000                  # of a file, and of an edit, that are searched for what was meant
_NEAR_CHARACTERS = 500              # of one line
_VOTES = 50                         # lines in which one word counts: a rare word says more than a common one
_CANDIDATES = 5
_LIKE = 0.5
_ALIKE = 0.75                       # how much two lines share of which one was meant for the other
_COMPARED = 200                     # lines of an edit that may fit nearly
_LOOKED = 200_000                   # lines that one answer may have looked through for what does not fit to the letter
_FIRSTS = 8                         # places of an edit's first line, where it may fit nearly
_SLACK = 2                          # lines that a file may have more than an edit says
_PART = 3                           # letters and digits of what may be a part of a line
_TOKEN = re.compile(r"\w+|[^\w\s]")
_END = re.compile(r"(\r\n|\n)")
_TYPOGRAPHIC = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-",
                              "\u2026": "..."})

Fit = Literal["exact", "spaced", "part", "nearly"]
FITS: dict[Fit, str] = {"exact": "to the letter", "spaced": "but for white space and quotation marks",
                        "part": "as a part of a line", "nearly": "but for some of its lines"}


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines to find, once, and the lines that stand there instead (none deletes them). `line`: where it stands in the answer."""

    search: tuple[str, ...]
    replace: tuple[str, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """An edit that fits no place, or more than one, and what its author needs to know."""

    edit: Edit
    why: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after the edits that fitted, those that did not, and for each that did the line (from 1) and how it fitted."""

    text: str
    faults: tuple[Fault, ...]
    places: tuple[tuple[int, Fit], ...]


def whole_lines(search: str, replace: str) -> Edit:
    """The edit that two texts are, as whole lines: a line end behind both stands for nothing."""
    if search.endswith("\n") and (replace.endswith("\n") or not replace):
        search, replace = search.removesuffix("\n").removesuffix("\r"), replace.removesuffix("\n").removesuffix("\r")
        return Edit(_written(search), _written(replace) if replace else ())
    return Edit(_written(search), _written(replace))


def _written(text: str) -> tuple[str, ...]:
    return tuple(text.replace("\r\n", "\n").split("\n"))


class Hints:
    """What is still done for the edits of an answer that do not fit to the letter: faults told with what was probably meant, and
    lines looked through.
    """

    def __init__(self, left: int = HINTS, lines: int = _LOOKED) -> None:
        self._left, self._lines = left, lines

    def spend(self) -> bool:
        """Whether there is a hint left; it is used up then."""
        self._left -= 1
        return self._left >= 0

    def look(self, lines: int) -> bool:
        """Whether so many lines may still be looked through; they are used up then."""
        self._lines -= lines
        return self._lines >= 0


def edited(text: str, edits: Sequence[Edit], hints: Hints) -> Edited:
    """The text after the edits, in their order: each sees what those before it did."""
    file, faults, places = _File.read(text), [], []
    for edit in edits:
        if not any(line.strip() for line in edit.search):
            faults.append(Fault(edit, "SEARCH holds no text: write the lines before or after which to add, "
                                      "or the whole file in a file block"))
            continue
        found = _places(file, edit, hints)
        if isinstance(found, _Place):
            file = found.spliced(file)
            places.append((found.start + 1, found.fit))
        elif found:
            lines = ", ".join(str(start + 1) for start in found[:8])
            times = f"{len(found)} times" if len(found) < _COUNTED else f"{_COUNTED} times and more"
            faults.append(Fault(edit, f"SEARCH stands {times} in the file, at its lines {lines}: add the lines around the one "
                                      "that is meant"))
        else:
            faults.append(Fault(edit, f"SEARCH is not in the file{_nearest(edit.search, file.lines) if hints.spend() else ''}"))
    return Edited(file.text, tuple(faults), tuple(places))


@dataclass(frozen=True)
class _File:
    """The lines of a text and what ends each: the last one has no end, and is empty where the text ends with one."""

    lines: tuple[str, ...]
    ends: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> _File:
        parts = _END.split(text)
        return cls(tuple(parts[::2]), (*parts[1::2], ""))

    @property
    def text(self) -> str:
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
        return [(number, bare) for number, line in enumerate(self.lines) if (bare := _bare(line))]

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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an edit belongs: for each line of its SEARCH the line of the file, None where the file has none there."""

    fit: Fit
    at: tuple[int | None, ...]
    edit: Edit                       # with whole lines, where the one that was written has a part of them

    @property
    def start(self) -> int:
        return next(at for at in self.at if at is not None)

    def spliced(self, file: _File) -> _File:
        """The file with the edit in this place."""
        lines: list[str] = []
        ends: list[str] = []
        done = 0
        for first, after, new in self._changes(file):
            lines += [*file.lines[done:first], *new]
            end = file.ends[first] if first < after and file.ends[first] else file.end
            ends += [*file.ends[done:first], *([end] * len(new))]
            done = after
        lines += file.lines[done:]
        ends += file.ends[done:]
        ends = [end or file.end for end in ends[:-1]] + [""] if ends else []
        return _File(tuple(lines), tuple(ends)) if lines else _File(("",), ("",))

    def _changes(self, file: _File) -> Iterator[tuple[int, int, list[str]]]:
        """First line of the file, the line after the last, and what stands there instead."""
        search, replace, at = self.edit.search, self.edit.replace, self.at
        written = _Indentation(search, file, at, exact=self.fit in ("exact", "part"))
        for old, until, new, last in _differences(search, replace):
            here = [one for one in at[old:until] if one is not None]
            if here:
                first, after = here[0], here[-1] + 1
            else:
                before = [one for one in at[:old] if one is not None]
                first = after = before[-1] + 1 if before else self.start
            yield first, after, [written.line(number, replace[number]) for number in range(new, last)]

    def holds(self, file: _File) -> bool:
        """Whether all that the edit takes out of the file is in its SEARCH, and how its lines are indented is clear."""
        at, search = self.at, self.edit.search
        for old, until, _, _ in _differences(search, self.edit.replace):
            here = [one for one in at[old:until] if one is not None]
            if not here and any(line.strip() for line in search[old:until]):
                return False
            known = set(here)
            if here and any(file.lines[one].strip() for one in range(here[0], here[-1] + 1) if one not in known):
                return False
        return _Indentation(search, file, at, exact=False).clear


class _Indentation:
    """How the lines that an edit brings are indented in the file: as those of its SEARCH are there."""

    def __init__(self, search: Sequence[str], file: _File, at: Sequence[int | None], *, exact: bool) -> None:
        self._exact, self.clear = exact, True
        self._known: dict[str, str] = {}
        self._first: tuple[str, str] | None = None
        pairs = [(_indent(line), _indent(file.lines[there])) for line, there in zip(search, at, strict=True)
                 if there is not None and line.strip() and _bare(line) == _bare(file.lines[there])]
        if len(pairs) > 1 and not pairs[0][0] and pairs[0][1] and any(here == there for here, there in pairs[1:]):
            self._first = pairs.pop(0)               # the first line lost its indentation when the block was cut out
        for here, there in pairs:
            if self._known.setdefault(here, there) != there:
                self.clear = False
        typographic = {sign for line in search for sign in line if ord(sign) in _TYPOGRAPHIC}
        used = {sign for sign in typographic if any(sign in line for line in file.lines)} if typographic else set()
        self._signs = {ord(sign): _TYPOGRAPHIC[ord(sign)] for sign in typographic - used}

    def line(self, number: int, line: str) -> str:
        """A line of REPLACE as it stands in the file."""
        if self._exact:
            return line
        line = line.translate(self._signs)
        if not line.strip():
            return line
        indent = _indent(line)
        if number == 0 and self._first is not None and indent == self._first[0]:
            return self._first[1] + line
        return self._moved(indent) + line[len(indent):]

    def _moved(self, indent: str) -> str:
        if not self._known or indent in self._known:
            return self._known.get(indent, indent)
        below = [known for known in self._known if indent.startswith(known)]
        if below:
            base = max(below, key=len)
            more = indent[len(base):]
            return self._known[base] + self._scaled(more)
        base = min(self._known, key=len)
        there, less = self._known[base], self._scaled(base[len(indent):])
        return there[:max(0, len(there) - len(less))]

    def _scaled(self, more: str) -> str:
        """A further indentation in the file's own steps, where SEARCH tells both."""
        for (here, there), (deeper, its) in pairwise(sorted(self._known.items(), key=lambda pair: len(pair[0]))):
            step, own = deeper[len(here):], its[len(there):]
            if step and own and deeper.startswith(here) and its.startswith(there):
                count, left = divmod(len(more), len(step))
                return own * count + more[len(step) * count:] if not left or more.startswith(step) else more
        if any("\t" in there for there in self._known.values()) and "\t" not in more:
            return "\t" * (len(more) // 4) + " " * (len(more) % 4)
        return more


def _places(file: _File, edit: Edit, hints: Hints) -> _Place | list[int]:
    """The one place of an edit; else the first lines of those where it fits, none where there is none."""
    exact = _runs(file.whole, edit.search)
    if len(exact) == 1:
        return _Place("exact", tuple(range(exact[0], exact[0] + len(edit.search))), edit)
    if exact:
        return exact
    known = "filled" in vars(file)
    if not hints.look(len(file.lines) if not known else len(file.lines) // 20):
        return []
    found = _spaced(file, edit) or _part(file, edit)
    return found if found else _nearly(file, edit, hints)


def _runs(whole: str, search: Sequence[str]) -> list[int]:
    """Where a run of lines begins in a text that has a line end before and behind all of its own; as far as they are counted."""
    wanted = "\n".join(("", *search, ""))
    found: list[int] = []
    at, line, counted = whole.find(wanted), 0, 0
    while at >= 0 and len(found) < _COUNTED:
        line += whole.count("\n", counted, at)
        counted = at
        found.append(line)
        at = whole.find(wanted, at + 1)
    return found


def _spaced(file: _File, edit: Edit) -> _Place | list[int]:
    """Where the lines stand but for white space and typographic signs; lines without text do not count."""
    filled = [number for number, line in enumerate(edit.search) if line.strip()]
    starts = _runs(file.bare, [_bare(edit.search[number]) for number in filled])
    if len(starts) != 1:
        return [file.filled[start][0] for start in starts]
    at: list[int | None] = [None] * len(edit.search)
    for number, (line, _) in zip(filled, file.filled[starts[0]:starts[0] + len(filled)], strict=True):
        at[number] = line
    place = _Place("spaced", tuple(_with_empty(at, edit.search, file)), edit)
    return place if place.holds(file) else []


def _with_empty(at: list[int | None], search: Sequence[str], file: _File) -> list[int | None]:
    """The empty lines of SEARCH beside those of the file, as far as there are some."""
    for number in range(1, len(at)):
        before = at[number - 1]
        if at[number] is None and before is not None and before + 1 < len(file.lines) and not search[number].strip() \
                and not file.lines[before + 1].strip():
            at[number] = before + 1
    return at


def _part(file: _File, edit: Edit) -> _Place | list[int]:
    """Where the text stands as a part of lines, not in the middle of a word."""
    wanted = "\n".join(edit.search).strip("\n")
    if len(re.findall(r"\w", wanted)) < _PART:
        return []
    whole, found, tried = file.whole[1:-1], list[int](), 0
    at = whole.find(wanted)
    while at >= 0 and tried < _COUNTED:
        after, tried = at + len(wanted), tried + 1
        if not _cuts(whole[at - 1:at], wanted[0]) and not _cuts(wanted[-1], whole[after:after + 1]):
            found.append(at)
        at = whole.find(wanted, after)
    if len(found) != 1 or at >= 0:
        return [whole.count("\n", 0, one) for one in found[:8]] + found[8:]
    (at,) = found
    first, last = whole.count("\n", 0, at), whole.count("\n", 0, at + len(wanted))
    end = whole.find("\n", at + len(wanted))
    inside = "\n".join(edit.replace).strip("\n")
    new = whole[whole.rfind("\n", 0, at) + 1:at] + inside + whole[at + len(wanted):len(whole) if end < 0 else end]
    return _Place("part", tuple(range(first, last + 1)), Edit(file.lines[first:last + 1], tuple(new.split("\n")), edit.line))


def _cuts(left: str, right: str) -> bool:
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


def _nearly(file: _File, edit: Edit, hints: Hints) -> _Place | list[int]:
    """Where the first and the last line fit, and nearly all between them."""
    filled = [number for number, line in enumerate(edit.search) if line.strip()]
    if not 3 <= len(filled) <= _COMPARED:
        return []
    bare = [_bare(edit.search[number]) for number in filled]
    firsts, lasts = file.where.get(bare[0], []), set(file.where.get(bare[-1], []))
    found = list[_Place]()
    for first in firsts if len(firsts) <= _FIRSTS else []:
        for more in sorted(range(-_SLACK, _SLACK + 1), key=abs):
            last = first + len(bare) - 1 + more
            if last not in lasts or last <= first or not hints.look(len(bare)):
                continue
            at = _aligned(bare, [text for _, text in file.filled[first:last + 1]])
            if at is None:
                continue
            whole: list[int | None] = [None] * len(edit.search)
            for number, one in zip(filled, at, strict=True):
                whole[number] = None if one is None else file.filled[first + one][0]
            place = _Place("nearly", tuple(_with_empty(whole, edit.search, file)), edit)
            if place.holds(file):
                found.append(place)
                break
    return found[0] if len(found) == 1 else [place.start for place in found]


def _aligned(search: Sequence[str], lines: Sequence[str]) -> list[int | None] | None:
    """For each line of an edit the one that it stands for; None where too few do."""
    at: list[int | None] = [None] * len(search)
    for one, other in _common(search, lines):
        at[one] = other
    missed = [number for number, place in enumerate(at) if place is None]
    extra = len(lines) - (len(search) - len(missed))
    if len(missed) + max(0, extra - len(missed)) > max(1, len(search) // 4):
        return None
    for number in missed:
        before = at[number - 1]                      # the first line fits always
        free = None if before is None else before + 1
        if free is not None and free < len(lines) and free not in at:
            if _shared(search[number], lines[free]) < _ALIKE:
                return None
            at[number] = free
    return at


def _shared(one: str, other: str) -> float:
    """How much two lines share: 1 where they are the same. By pairs of neighbouring characters."""
    left, right = (Counter(map("".join, pairwise(text[:_NEAR_CHARACTERS]))) for text in (one, other))
    return 2 * (left & right).total() / max(1, left.total() + right.total())


def _common(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
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


def _differences(search: Sequence[str], replace: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """What changes from SEARCH to REPLACE: first line of the one, the line after the last, and the same of the other."""
    found, left, right = [], 0, 0
    for one, other in [*_common(search, replace), (len(search), len(replace))]:
        if left < one or right < other:
            found.append((left, one, right, other))
        left, right = one + 1, other + 1
    return found


def _bare(line: str) -> str:
    """A line without white space, with plain quotation marks and dashes."""
    return "".join(line.translate(_TYPOGRAPHIC).split())


def _indent(line: str) -> str:
    return line[:len(line) - len(line.lstrip(" \t"))]


def _nearest(search: Sequence[str], lines: Sequence[str]) -> str:
    """The lines of the file that the search is most like, with their number: the place that most of its words speak for."""
    wanted, there = _tokens(search), _tokens(lines)
    where: dict[str, list[int]] = defaultdict(list)
    for number, words in enumerate(there):
        for word in words:
            if len(where[word]) < _VOTES:
                where[word].append(number)
    votes: Counter[int] = Counter()
    for offset, words in enumerate(wanted):
        for word in words:
            places = where.get(word, ())
            for place in places:
                votes[max(0, place - offset)] += 1000 // len(places) + 1
    size, sought = len(search), _together(wanted)
    best, score = None, _LIKE
    for at, _ in votes.most_common(_CANDIDATES):
        window = _together(there[at:at + size])
        share = 2 * (sought & window).total() / max(1, sought.total() + window.total())
        if share > score:
            best, score = at, share
    if best is None:
        return ": nothing there is like it"
    return f"; nearest, at its line {best + 1}:\n" + "\n".join(lines[best:best + size])


def _together(counted: Sequence[Counter[str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in counted:
        found.update(one)
    return found


def _tokens(lines: Sequence[str]) -> list[Counter[str]]:
    return [Counter(_TOKEN.findall(line[:_NEAR_CHARACTERS])) for line in lines[:_NEAR_LINES]]
