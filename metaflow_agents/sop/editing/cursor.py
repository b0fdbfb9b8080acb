"""Where in a SOP a cursor stands, also while a line is half written.

A mark is put in the place of the word at the cursor, and the text is read: as it is, as a key, with brackets and quotes closed,
without what follows. The first reading that holds the mark says the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from metaflow_agents.sop.document import Document
from metaflow_agents.sop.places import Path
from metaflow_agents.sop.reading import read_yaml

MARK = "ZzCursorZz"
_WORD = re.compile(r"\w*")
_CLOSERS = {"[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Cursor:
    """`path`: of the value in which the cursor stands, or of the mapping to which the word would be a key (`key`). `word`: its
    part before the cursor, which begins at `start`. `before`: of a text, all before the word. `whole`: the word is all of it.
    """

    path: Path
    key: bool
    word: str
    start: int
    before: str
    whole: bool
    document: Document
    text: str
    """The text that was read, with the mark in it."""


def offset_of(text: str, line: int, column: int) -> int:
    """The character at a place counted from 1, in a text whose lines end as in Unix; the nearest one where there is none."""
    at = 0
    for _ in range(max(line, 1) - 1):
        following = text.find("\n", at)
        if following < 0:
            break
        at = following + 1
    end = text.find("\n", at)
    return min(at + max(column, 1) - 1, len(text) if end < 0 else end)


def cursor_at(text: str, line: int, column: int) -> Cursor | None:
    """Where the cursor stands; None where nothing of the text around it can be read."""
    at = offset_of(text, line, column)
    start = at
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    rest = _WORD.match(text, at)
    end = rest.end() if rest else at
    for candidate in _candidates(text, start, end):
        document = read_yaml(candidate.encode("utf-8", "surrogatepass"), "")
        found = _marked(document.data, ()) if isinstance(document.data, dict) else None
        if found is not None:
            path, key, value = found
            before = "" if key else value[:value.index(MARK)]
            return Cursor(path, key, text[start:at], start, before, value == MARK, document, candidate)
    return None


def _candidates(text: str, start: int, end: int) -> Iterator[str]:
    first = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    head, tail, below = text[:start], text[end:line_end], text[line_end:]
    closers = _unclosed(text[first:start])
    lead = text[first:start].rstrip()
    marks = [MARK, f"{MARK}:"] if not lead.strip() or lead.endswith(("{", ",", "-")) else [MARK]
    for mark in marks:
        yield f"{head}{mark}{tail}{below}"
    for mark in marks:
        yield f"{head}{mark}{closers}{tail}{below}"
    for mark in marks:
        yield f"{head}{mark}{closers}{below}"
    for mark in marks:
        yield f"{head}{mark}{closers}\n"


def _unclosed(line: str) -> str:
    """What closes the brackets and the quote that a line opens."""
    opened: list[str] = []
    quote = ""
    for index, one in enumerate(line):
        if quote:
            quote = "" if one == quote and line[index - 1] != "\\" else quote
        elif one in "\"'" and (index == 0 or line[index - 1] in " [{,:"):
            quote = one
        elif one in _CLOSERS:
            opened.append(_CLOSERS[one])
        elif one in "]}" and opened:
            opened.pop()
        elif one == "#" and (index == 0 or line[index - 1] == " "):
            break
    return quote + "".join(reversed(opened))


def _marked(data: Any, path: Path) -> tuple[Path, bool, str] | None:
    """The path of the mark, whether it is a key, and the value that holds it."""
    waiting: list[tuple[Any, Path]] = [(data, path)]
    while waiting:
        value, here = waiting.pop()
        if isinstance(value, str) and MARK in value:
            return here, False, value
        if isinstance(value, dict):
            for key, inner in value.items():
                if MARK in key:
                    return here, True, key
                waiting.append((inner, (*here, key)))
        elif isinstance(value, list):
            waiting += [(inner, (*here, index)) for index, inner in enumerate(value)]
    return None
