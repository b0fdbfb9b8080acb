"""Places of a YAML text where something can be put in or taken out without touching the lines around it.

All functions here read a text by the nodes of `sop/reading.py` and give splices: (start, end, what stands there instead).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from metaflow_agents.sop.document import LINE
from metaflow_agents.sop.position import PositionNode

_ANCHOR = re.compile(r"&[^\s,\[\]{}]+\s*")
_AFTER = re.compile(r"[ \t]*(?:(?<=[ \t])#[^\r\n]*)?(?=\r\n|\n|\r|\Z)")
_COMMA = re.compile(r"[ \t]*,")
_COMMENT_LINE = re.compile(r"[ \t]*#")


class Splice(NamedTuple):
    """What stands between two characters is replaced."""

    start: int
    end: int
    text: str


class NoPlace(ValueError):
    """Nothing can be spliced there; the message says why."""


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with all splices carried out; none may overlap another."""
    parts, at = [], 0
    for start, end, new in sorted(splices):
        if start < at:
            raise NoPlace("two changes meet in one place")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def line_break(text: str) -> str:
    """The line break of the text's first line; a line feed where it has one line."""
    found = LINE.search(text)
    return found[0] if found else "\n"


def line_start(text: str, at: int) -> int:
    """Where the line of a character begins."""
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def next_line(text: str, at: int) -> int:
    """Where the line after that of a character begins; the end of the text behind the last one."""
    found = LINE.search(text, at)
    return found.end() if found else len(text)


def content_start(text: str, node: PositionNode) -> int:
    """Where a value begins behind its anchor."""
    anchor = _ANCHOR.match(text, node.start)
    return anchor.end() if anchor else node.start


def content_end(text: str, node: PositionNode) -> int:
    """Behind the last character of a value: blank lines and comments below a block are none of it."""
    if node.kind == "scalar" and node.style in ("|", ">"):
        header = text[node.start:next_line(text, node.start)].split("#")[0]
        if "+" in header:
            return node.end
        return node.start + len(text[node.start:node.end].rstrip())
    if node.kind == "mapping" and not node.flow and node.pairs:
        return pair_end(text, node, list(node.pairs)[-1])
    if node.kind == "sequence" and not node.flow and node.items:
        last = node.items[-1]
        return max(content_end(text, last), content_end(text, node.items[-2]) if len(node.items) > 1 else 0)
    return node.end


def pair_end(text: str, mapping: PositionNode, key: str) -> int:
    """Behind the last character of a key's value, or of the key where it has none."""
    key_node, value = mapping.pairs[key]
    return max(content_end(text, value), key_node.end)


def insertion(text: str, at: int, lines: str) -> Splice:
    """Whole lines below the line in which `at` stands, which may end with a comment."""
    if at and text[at - 1:at] in ("\n", "\r"):              # a block that keeps its blank lines ends behind them
        return Splice(at, at, lines)
    if _AFTER.match(text, at) is None:
        raise NoPlace("more follows in the same line")
    below = next_line(text, at)
    if below == len(text) and not text.endswith(("\n", "\r")):
        broken = line_break(text)
        return Splice(below, below, broken + lines.removesuffix(broken))
    return Splice(below, below, lines)


def removal(text: str, start: int, end: int, *, comments: bool) -> Iterator[Splice]:
    """The whole lines from that of one character to that of another, but for lines that are comments, where these are kept. Of
    two empty lines around them one goes too.

    Raises NoPlace where something else stands in the first line or the last one.
    """
    first = line_start(text, start)
    if text[first:start].strip() or _AFTER.match(text, end) is None:
        raise NoPlace("more stands in the same line")
    at, below = first, next_line(text, end)
    while at < below:
        following = next_line(text, at)
        if not (comments and _COMMENT_LINE.match(text, at, following)):
            yield Splice(at, following, "")
        at = following
    above = text[line_start(text, max(first - 1, 0)):first]
    if first and not above.strip() and below < len(text) and not text[below:next_line(text, below)].strip():
        yield Splice(below, next_line(text, below), "")


def without_member(text: str, members: list[tuple[int, int]], number: int, opened: int) -> Splice:
    """One of the members of `[…]` or `{…}` taken out with its comma; a line break beside it stays, with the comments there.

    `opened`: behind the opening bracket.
    """
    start, end = members[number]
    before = members[number - 1][1] if number else opened
    if number and not LINE.search(text, before, start):
        return Splice(before, end, "")
    after = members[number + 1][0] if number + 1 < len(members) else None
    if after is not None and not LINE.search(text, end, after):
        return Splice(start, after, "")
    comma = _COMMA.match(text, end)
    end = comma.end() if comma else end
    first = line_start(text, start)
    if not text[first:start].strip() and _AFTER.match(text, end) is not None:       # it has the line for itself
        return Splice(first, next_line(text, end), "")
    return Splice(start, end, "")
