"""Tables: a list of flat records, a mapping of them, or a CSV file, as columns and rows of clean texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from metaflow_agents.views.ui.texts import line

ROWS, COLUMNS = 500, 40
_CELL = 400                         # characters
_CSV = 2_000_000                    # characters of a file that is read as a table

Table = dict[str, Any]
"""`{"columns": [text], "rows": [[text]], "total": rows in all}`"""


def table_of(value: Any) -> Table | None:
    """The table that JSON data is; None where it is none: a cell would be a list or a mapping, or there are too many columns."""
    records = _records(value)
    if not records or not all(_flat(cell) for record in records for cell in record.values()):
        return None
    columns = list(dict.fromkeys(name for record in records for name in record))
    if len(columns) > COLUMNS:
        return None
    return {"columns": [line(str(name), _CELL) for name in columns], "total": len(records),
            "rows": [[_cell(record.get(name, "")) for name in columns] for record in records[:ROWS]]}


def _records(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list) and len(value) <= 100_000 and all(isinstance(item, Mapping) and item for item in value):
        return value
    if isinstance(value, Mapping) and len(value) > 1 and all(isinstance(item, Mapping) and item for item in value.values()):
        return [{"": key, **item} for key, item in value.items()]
    return []


def csv_table(text: str, delimiter: str = ",") -> Table | None:
    """The table of a CSV text; None where it is none: rows of one column, or of very different lengths."""
    if len(text) > _CSV:
        return None
    try:
        rows = list(_rows(text, delimiter))
    except csv.Error:
        return None
    if len(rows) < 2 or not 1 < len(rows[0]) <= COLUMNS or any(len(row) > len(rows[0]) for row in rows):
        return None
    return {"columns": [line(cell, _CELL) for cell in rows[0]], "total": len(rows) - 1,
            "rows": [[line(cell, _CELL) for cell in row] + [""] * (len(rows[0]) - len(row)) for row in islice(rows, 1, ROWS + 1)]}


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    return (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row)


def _flat(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and "\n" not in value.strip())


def _cell(value: Any) -> str:
    return line(value if isinstance(value, str) else "" if value is None else json.dumps(value), _CELL)
