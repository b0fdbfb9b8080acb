"""A run's outputs where it ends: short ones whole, of all others the place and the first lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.journal.places import artifacts_of
from metaflow_agents.journal.projection import Outline
from metaflow_agents.journal.tree import Tree, name_beside
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import CollectionView, FilesView
from metaflow_agents.schema.binary import BinaryFile, jsonable
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.graph import outputs_of
from metaflow_agents.views.page import Page, columns, safe, table
from metaflow_agents.views.wording import amount

SHORT_LINES = 12                    # what has no more lines, rows or files than this stands whole
SHORT_CHARACTERS = 800
FIRST_LINES = 3                     # of what is longer
_COLUMN = 12                        # columns of the terminal that a column of a table needs at least


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value lies; empty where nowhere. Beside the run's folder it is told only of what does not stand here whole."""

    path: str
    where_long: bool = False

    @property
    def of_whole(self) -> str:
        return "" if self.where_long else self.path


def outputs_lines(program: Program, outline: Outline, values: Values, folder: str, page: Page) -> list[str]:
    """Each output that was made: its value where that is short, else where it lies and how it begins, by its template where it
    has one. `folder`: the run's.
    """
    lines, tree = list[str](), Tree(program, values, outline, Path(folder).name)
    for name in outputs_of(program.sop):
        payload = outline.payload(name)
        if payload is None or name in program.sop.inputs:
            continue
        spec = program.sop.artifacts.get(name)
        value = values.view(payload)
        at = _Place(f"{folder}/{spec.file}" if spec is not None and spec.file is not None else "")
        if not at.path and spec is not None and not spec.files:
            at = _Place(f"{artifacts_of(Path(folder))}/{name_beside(name, value)}", where_long=True)
        if spec is not None and spec.render is not None:
            lines += _rendered(name, at, tree, value, page)
        else:
            lines += _output(name, value, at, page)
    return ["outputs:", *lines] if lines else []


def _rendered(name: str, at: _Place, tree: Tree, value: Any, page: Page) -> list[str]:
    """By its template; where that fails, which is what stopped the run, the data itself, and that its file lacks."""
    try:
        return _text(name, at, tree.as_rendered(name, value), page)
    except ExpressionError:
        lines = _output(name, value, _Place(""), page)
        return [*lines, *page.wrapped(f"{safe(at.path)} is not written: its template fails", "    ")] if at.path else lines


def _output(name: str, value: Any, at: _Place, page: Page) -> list[str]:
    if isinstance(value, BinaryFile):
        return _headed(name, at.path, f"{value.media_type}, {value.size:,} bytes", page)
    if isinstance(value, FilesView):
        return _list(name, at, list(value), "file", page)
    if isinstance(value, CollectionView):
        plain = {key: jsonable(item) for key, item in value.items()}
        return _data(name, at, plain, page) if len(plain) <= SHORT_LINES else _list(name, at, list(plain), "item", page)
    return _text(name, at, value, page) if isinstance(value, str) else _data(name, at, jsonable(value), page)


def _data(name: str, at: _Place, value: Any, page: Page) -> list[str]:
    """A number, a list or a mapping: a table where it is one and its columns have room, else JSON."""
    rows = _rows(value)
    if rows and len(rows) - 1 <= SHORT_LINES and (page.width is None or len(rows[0]) * _COLUMN <= page.width):
        drawn = table(rows[1:], page, headings=rows[0] if any(rows[0]) else (), indent="    ")
        whole = table(rows[1:], Page(colour=page.colour), headings=rows[0] if any(rows[0]) else (), indent="    ")
        if drawn == whole:
            return [*_headed(name, at.of_whole, "", page), *drawn]
        return [*_headed(name, at.path, "cut to the width", page), *drawn]
    line = json.dumps(value, ensure_ascii=False)
    short = (page.width is None and len(line) <= 80) or (page.width is not None and columns(f"  {name}: {line}") <= page.width)
    return _text(name, at, line if short else json.dumps(value, ensure_ascii=False, indent=2), page)


def _rows(value: Any) -> list[list[str]]:
    """Headings, empty for a mapping of scalars, and rows; nothing where the value is no table."""
    if isinstance(value, Mapping) and value and all(_scalar(item) for item in value.values()):
        return [["", ""], *([str(key), _cell(item)] for key, item in value.items())]
    if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
        return _records([{"": key, **item} for key, item in value.items()])
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return _records(value)
    return []


def _records(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    if not all(_scalar(cell) for record in records for cell in record.values()):
        return []
    heads = list(dict.fromkeys(key for record in records for key in record))
    return [heads, *([_cell(record[head]) if head in record else "" for head in heads] for record in records)]


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and "\n" not in value)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _list(name: str, at: _Place, names: Sequence[str], what: str, page: Page) -> list[str]:
    """Paths or keys, the first ones where there are many."""
    shown = names if len(names) <= SHORT_LINES else names[:FIRST_LINES]
    more = [f"    and {len(names) - len(shown):,} more"] if len(shown) < len(names) else []
    place = at.path if more else at.of_whole
    return [*_headed(name, place, amount(len(names), what), page), *(page.fitted(f"    {safe(one)}") for one in shown), *more]


def _text(name: str, at: _Place, text: str, page: Page) -> list[str]:
    head = text[:SHORT_CHARACTERS + 1]                              # a long text is not looked at whole
    lines = head.rstrip("\n").split("\n")
    if len(head) <= SHORT_CHARACTERS and len(lines) <= SHORT_LINES:
        if not head.strip():
            return _headed(name, at.of_whole, "(empty)", page)
        if len(lines) == 1 and not at.of_whole:
            return page.wrapped(safe(lines[0]), f"  {page.paint(safe(name), 'bold')}: ", "    ")
        return [*_headed(name, at.of_whole, "", page), *(row for line in lines for row in page.wrapped(safe(line), "    "))]
    first = [Page(page.width or 160).fitted(f"    {safe(line)}") for line in lines[:FIRST_LINES]]
    told = f"{amount(text.count(chr(10), 0, len(text.rstrip())) + 1, 'line')}, it begins:"
    return [*_headed(name, at.path, told, page), *first]


def _headed(name: str, at: str, told: str, page: Page) -> list[str]:
    rest = ", ".join(filter(None, (safe(at), safe(told))))
    head = f"  {page.paint(safe(name), 'bold')}:"
    return page.wrapped(rest, f"{head} ", "    ") if rest else [head]
