"""Where an edit belongs: the one place that fits, by steps that are less and less strict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from metaflow_agents.code.edits.lines import File, common, squeezed
from metaflow_agents.code.edits.model import Edit, Hints
from metaflow_agents.code.edits.splicing import EditPlace

COUNTED = 100                       # places of one text that are counted
_NEAR_CHARACTERS = 500              # of one line
_ALIKE = 0.75                       # how much two lines share of which one was meant for the other
_COMPARED = 200                     # lines of an edit that may fit nearly
_FIRSTS = 8                         # places of an edit's first line, where it may fit nearly
_SLACK = 2                          # lines that a file may have more than an edit says
_PART = 3                           # letters and digits of what may be a part of a line


def places_of(file: File, edit: Edit, hints: Hints) -> EditPlace | list[int]:
    """The one place of an edit; else the first lines of those where it fits, none where there is none."""
    exact = runs(file.whole, edit.search)
    if len(exact) == 1:
        return EditPlace("exact", tuple(range(exact[0], exact[0] + len(edit.search))), edit)
    if exact:
        return exact
    known = "filled" in vars(file)
    if not hints.look(len(file.lines) if not known else len(file.lines) // 20):
        return []
    found = _spaced(file, edit) or _part(file, edit)
    return found if found else _nearly(file, edit, hints)


def runs(whole: str, search: Sequence[str]) -> list[int]:
    """Where a run of lines begins in a text that has a line end before and behind all of its own; as far as they are counted."""
    wanted = "\n".join(("", *search, ""))
    found: list[int] = []
    at, line, counted = whole.find(wanted), 0, 0
    while at >= 0 and len(found) < COUNTED:
        line += whole.count("\n", counted, at)
        counted = at
        found.append(line)
        at = whole.find(wanted, at + 1)
    return found


def _spaced(file: File, edit: Edit) -> EditPlace | list[int]:
    """Where the lines stand but for white space and typographic signs; lines without text do not count."""
    filled = [number for number, line in enumerate(edit.search) if line.strip()]
    starts = runs(file.bare, [squeezed(edit.search[number]) for number in filled])
    if len(starts) != 1:
        return [file.filled[start][0] for start in starts]
    at: list[int | None] = [None] * len(edit.search)
    for number, (line, _) in zip(filled, file.filled[starts[0]:starts[0] + len(filled)], strict=True):
        at[number] = line
    place = EditPlace("spaced", tuple(_with_empty(at, edit.search, file)), edit)
    return place if place.holds(file) else []


def _with_empty(at: list[int | None], search: Sequence[str], file: File) -> list[int | None]:
    """The empty lines of SEARCH beside those of the file, as far as there are some."""
    for number in range(1, len(at)):
        before = at[number - 1]
        if at[number] is None and before is not None and before + 1 < len(file.lines) and not search[number].strip() \
                and not file.lines[before + 1].strip():
            at[number] = before + 1
    return at


def _part(file: File, edit: Edit) -> EditPlace | list[int]:
    """Where the text stands as a part of lines, not in the middle of a word."""
    wanted = "\n".join(edit.search).strip("\n")
    if len(re.findall(r"\w", wanted)) < _PART:
        return []
    whole, found, tried = file.whole[1:-1], list[int](), 0
    at = whole.find(wanted)
    while at >= 0 and tried < COUNTED:
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
    return EditPlace("part", tuple(range(first, last + 1)), Edit(file.lines[first:last + 1], tuple(new.split("\n")), edit.line))


def _cuts(left: str, right: str) -> bool:
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


def _nearly(file: File, edit: Edit, hints: Hints) -> EditPlace | list[int]:
    """Where the first and the last line fit, and nearly all between them."""
    filled = [number for number, line in enumerate(edit.search) if line.strip()]
    if not 3 <= len(filled) <= _COMPARED:
        return []
    bare = [squeezed(edit.search[number]) for number in filled]
    firsts, lasts = file.where.get(bare[0], []), set(file.where.get(bare[-1], []))
    found = list[EditPlace]()
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
            place = EditPlace("nearly", tuple(_with_empty(whole, edit.search, file)), edit)
            if place.holds(file):
                found.append(place)
                break
    return found[0] if len(found) == 1 else [place.start for place in found]


def _aligned(search: Sequence[str], lines: Sequence[str]) -> list[int | None] | None:
    """For each line of an edit the one that it stands for; None where too few do."""
    at: list[int | None] = [None] * len(search)
    for one, other in common(search, lines):
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
