"""The lines of a file that an edit which fits nowhere was probably meant for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

_NEAR_LINES = 2000                  # of a file, and of an edit, that are searched for what was meant
_NEAR_CHARACTERS = 500              # of one line
_VOTES = 50                         # lines in which one word counts: a rare word says more than a common one
_CANDIDATES = 5
_LIKE = 0.5
_TOKEN = re.compile(r"\w+|[^\w\s]")


def nearest(search: Sequence[str], lines: Sequence[str]) -> str:
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
