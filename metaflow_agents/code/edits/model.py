"""What an edit is, and what came of edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HINTS = 20                          # of one answer: who has more faults than that reads the files anew
_LOOKED = 200_000                   # lines that one answer may have looked through for what does not fit to the letter
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
class EditFault:
    """An edit that fits no place, or more than one, and what its author needs to know."""

    edit: Edit
    why: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after the edits that fitted, those that did not, and for each that did the line (from 1) and how it fitted."""

    text: str
    faults: tuple[EditFault, ...]
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
