"""Where lines will be read: width, colour, and text that can't take the terminal over."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from metaflow_agents.terminal.printing import shown as safe

__all__ = ["Page", "columns", "cut", "safe", "table"]

_NO_STYLES: Mapping[int, Callable[[str], str]] = MappingProxyType({})
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Page:
    """A reader's window. `width` is in columns; None where lines may be of any length (a file, a pipe)."""

    width: int | None = None
    colour: bool = False

    def paint(self, text: str, *styles: str) -> str:
        """The text in these styles: bold, dim, or a colour."""
        codes = ";".join(_CODES[style] for style in styles if style)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and text and codes else text

    def wrapped(self, text: str, first: str = "", rest: str | None = None) -> list[str]:
        """The text in lines that fit, each beginning with `first` or `rest`; line breaks in the text are kept."""
        if rest is None:
            wide = columns(first)
            rest = " " * (wide if self.width is None or wide * 3 <= self.width else min(wide, 4))
        lines: list[str] = []
        for part in text.splitlines() or [""]:
            lead = rest if lines else first
            if self.width is None:
                lines.append(lead + part)
            else:
                room = max(self.width, len(rest) + 24)
                lines += textwrap.wrap(part, room, initial_indent=lead, subsequent_indent=rest, break_long_words=False,
                                       break_on_hyphens=False) or [lead.rstrip()]
        return lines

    def packed(self, parts: Sequence[str], gap: str = "  ") -> list[str]:
        """The parts one after the other, as many in a line as fit; none is broken where it fits into a line."""
        lines: list[str] = []
        for part in parts:
            if lines and (self.width is None or columns(lines[-1] + gap + part) <= self.width):
                lines[-1] += gap + part
            else:
                lines.append(part)
        return lines

    def fitted(self, text: str) -> str:
        """The text on one line that fits: what is too long ends with `…`."""
        return text if self.width is None else cut(text, self.width)


def columns(text: str) -> int:
    """How many columns a line takes on a terminal: wide letters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int) -> str:
    """At most `width` columns of a line; what was cut off shows as `…`."""
    if columns(text) <= width:
        return text
    taken, room = [], max(width, 1) - 1
    for letter in text:
        room -= _columns(letter)
        if room < 0:
            break
        taken.append(letter)
    return "".join(taken).rstrip() + "…"


def table(rows: Sequence[Sequence[str]], page: Page, *, headings: Sequence[str] = (), right: Iterable[int] = (),
          styles: Mapping[int, Callable[[str], str]] = _NO_STYLES, indent: str = "", gap: str = "  ") -> list[str]:
    """Columns under their headings. Where they don't fit, the widest are cut; `right` are aligned to the right.

    `styles`: column → what gives the style of a cell by its text (an empty text: none).
    """
    plain = [[safe(cell) for cell in row] for row in rows]
    if not plain:
        return []
    everything = [list(headings), *plain] if headings else plain
    widths = [max(columns(row[place]) for row in everything) for place in range(len(plain[0]))]
    if page.width is not None:
        _shrink(widths, page.width - len(indent) - len(gap) * (len(widths) - 1))
    aligned = frozenset(right)

    def line(row: Sequence[str], styled: bool) -> str:
        cells = []
        for place, cell in enumerate(row):
            shown = cut(cell, widths[place])
            padding = " " * (widths[place] - columns(shown)) if place < len(row) - 1 or place in aligned else ""
            if styled and place in styles:
                shown = page.paint(shown, styles[place](cell))
            cells.append(padding + shown if place in aligned else shown + padding)
        return (indent + gap.join(cells)).rstrip()

    head = [page.paint(line(headings, False), "dim")] if headings else []
    return [*head, *(line(row, True) for row in plain)]


def _shrink(widths: list[int], room: int) -> None:
    """Takes from the widest columns until all fit; none gets narrower than 8."""
    while sum(widths) > room and max(widths) > 8:
        widest = max(widths)
        place = widths.index(widest)
        others = max((width for width in widths if width < widest), default=8)
        spare = sum(widths) - room
        widths[place] = max(widest - spare, others if widths.count(widest) == 1 and others >= 8 else widest - 1, 8)
