"""Where the parts of a YAML text stand: nodes with their places, and the way from inside a scalar back to the file."""

from __future__ import annotations

import re
from typing import Any, Literal

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r\n|.)", re.DOTALL)
_HEX = {"x", "u", "U"}
_NAMED = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
          "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}


class PositionNode:
    """One value of a YAML file. `start` and `end` count characters from 0; `line` and `column` count from 1.

    `size` is the number of values in it and `height` the levels below it, aliases written out. An alias has its `target`.
    """

    __slots__ = ("column", "data", "end", "flow", "height", "items", "kind", "line", "pairs", "size", "start", "style",
                 "target", "value")

    def __init__(self, kind: Literal["scalar", "mapping", "sequence", "alias"], start: Any, end: Any, *, flow: bool = False,
                 style: str = "", value: str = "") -> None:
        self.kind, self.flow, self.style, self.value = kind, flow, style, value
        self.start, self.end = int(start.index), int(end.index)
        self.line, self.column = int(start.line) + 1, int(start.column) + 1
        self.size = 1
        self.height = 0 if kind == "scalar" else 1
        self.data: Any = value
        self.target: PositionNode | None = None
        self.pairs: dict[str, tuple[PositionNode, PositionNode]] = {} if kind == "mapping" else _NO_PAIRS
        self.items: list[PositionNode] = [] if kind == "sequence" else _NO_ITEMS

    @property
    def plain(self) -> bool:
        """Whether it is a scalar without quotes or block sign."""
        return self.kind == "scalar" and not self.style


_NO_PAIRS: dict[str, tuple[PositionNode, PositionNode]] = {}
_NO_ITEMS: list[PositionNode] = []


def offset_in_source(text: str, node: PositionNode, line: int, column: int) -> int:
    """The character of the file at which a 1-based place inside a scalar's text stands.

    All scalar styles keep the order of what is not white space, so value and source are walked side by side; exact for
    everything but white space that YAML folds.
    """
    value = node.value
    lines = value.split("\n")
    line = min(max(line, 1), len(lines))
    wanted = sum(len(one) + 1 for one in lines[:line - 1]) + min(max(column, 1) - 1, len(lines[line - 1]))
    units = _units(text, node)
    place, unit, last = node.start if not units else units[0][0], 0, -1
    for index, character in enumerate(value[:wanted + 1]):
        if character.isspace():
            continue
        while unit < len(units) and units[unit][1] != character:
            unit += 1
        if unit == len(units):
            break
        place, last, unit = units[unit][0], index, unit + 1
    if last == wanted:
        return place
    return _white(text, value, node, place, last, wanted)


def _white(text: str, value: str, node: PositionNode, place: int, last: int, wanted: int) -> int:
    """A place in the white space (or at the end) behind the last character that was walked to."""
    if last < 0 and not value.strip():
        return place
    if "\n" not in value[max(last, 0):wanted]:
        return min(place + wanted - last, node.end) if last >= 0 else place
    following = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)").match(text, place)          # the next line of the file
    return min(following.end() if following else place, node.end)


def _units(text: str, node: PositionNode) -> list[tuple[int, str]]:
    """The characters that a scalar's source stands for, each with its place in the file."""
    if node.style in ("|", ">"):
        header = re.compile(r"[^\r\n]*").match(text, node.start)
        start = header.end() if header else node.start
        return list(enumerate(text[start:node.end], start))
    if node.style == "'":
        return _single(text, node.start + 1, node.end - 1)
    if node.style == '"':
        return _double(text, node.start + 1, node.end - 1)
    return list(enumerate(text[node.start:node.end], node.start))


def _single(text: str, start: int, end: int) -> list[tuple[int, str]]:
    units = []
    while start < end:
        units.append((start, text[start]))
        start += 2 if text.startswith("''", start) else 1
    return units


def _double(text: str, start: int, end: int) -> list[tuple[int, str]]:
    units = []
    while start < end:
        escape = _ESCAPE.match(text, start, end) if text[start] == "\\" else None
        if escape is None:
            units.append((start, text[start]))
            start += 1
            continue
        sign = escape[0][1]
        units.append((start, chr(int(escape[0][2:], 16)) if sign in _HEX else _NAMED.get(sign, sign)))
        start = escape.end()
    return units
