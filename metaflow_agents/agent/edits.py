"""Edits of a text: whole lines that stand there once, and what stands there instead.

One that fits nowhere is told with the nearest lines. The work is linear in the text and the edits: a model's answer decides how
many there are, how long they are, and how often they nearly fit.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

HINTS = 20                          # of one answer: who has more faults than that reads the files anew
_COUNTED = 100                      # places of one text that are counted
_NEAR_LINES = 2000                  # of a file, and of an edit, that are searched for what was meant
_NEAR_CHARACTERS = 500              # of one line
_VOTES = 50                         # lines in which one word counts: a rare word says more than a common one
_CANDIDATES = 5
_LIKE = 0.5
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Edit:
    """Whole lines to find, once, and the lines that stand there instead (none deletes them)."""

    search: tuple[str, ...]
    replace: tuple[str, ...]
    line: int


class Hints:
    """How many faults of an answer are still told with what was probably meant."""

    def __init__(self, left: int = HINTS) -> None:
        self._left = left

    def spend(self) -> bool:
        """Whether there is one left; it is used up then."""
        self._left -= 1
        return self._left >= 0


def edited(path: str, edits: Sequence[Edit], text: str, hints: Hints) -> tuple[str, list[str]]:
    """The text after the edits, in order, and the faults of those that do not fit."""
    newline = "\r\n" if "\r\n" in text else "\n"
    whole = "\n" + text.replace("\r\n", "\n") + "\n"
    faults = []
    for edit in edits:
        where = f"line {edit.line}: `{path}`: SEARCH"
        if not any(line.strip() for line in edit.search):
            faults.append(f"{where} holds no text: write the lines before or after which to add, "
                          "or the whole file in a file block")
            continue
        wanted = "\n".join(("", *edit.search, ""))
        found = _places(whole, wanted)
        if len(found) == 1:
            at = found[0]
            whole = whole[:at] + "\n".join(("", *edit.replace, "")) + whole[at + len(wanted):]
        elif found:
            lines = ", ".join(str(whole.count("\n", 0, at) + 1) for at in found[:8])
            times = f"{len(found)} times" if len(found) < _COUNTED else f"{_COUNTED} times and more"
            faults.append(f"{where} stands {times} in the file, at its lines {lines}: add the lines around the one that is meant")
        else:
            near = _nearest(edit.search, whole[1:-1].split("\n")) if hints.spend() else ""
            faults.append(f"{where} is not in the file{near}")
    return whole[1:-1].replace("\n", newline), faults


def _places(whole: str, wanted: str) -> list[int]:
    """Where whole lines stand, as far as they are counted."""
    found: list[int] = []
    at = whole.find(wanted)
    while at >= 0 and len(found) < _COUNTED:
        found.append(at)
        at = whole.find(wanted, at + 1)
    return found


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
