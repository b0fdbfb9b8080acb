"""What a table needs and expressions can't do: CSV, counting, and joining with the gold labels."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

LABELS = ["true", "false", "undecided"]


def _records(text: str) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV or JSON table, with their lines (of JSON: their numbers)."""
    if text.lstrip().startswith("["):
        return [(n, {str(k): "" if v is None else str(v) for k, v in one.items()}) for n, one in enumerate(json.loads(text), 1)]
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")))
    return [
        (reader.line_num, {str(k).strip(): (v or "").strip() for k, v in one.items() if isinstance(v, str) or v is None})
        for one in reader
    ]


def read(text: str) -> dict[str, Any]:
    """The rows that can be used, and those that can't be, each with the reason."""
    rows: list[dict[str, str]] = []
    refused: list[dict[str, Any]] = []
    seen: set[str] = set()
    for line, one in _records(text):
        key = one.get("id", "")
        why = (
            "it has no id"
            if not key
            else "its id is duplicated"
            if key in seen
            else next((f"it has no {name}" for name in ("claim", "evidence") if not one.get(name)), "")
        )
        if why:
            refused.append({"line": line, "id": key, "why": why})
        else:
            seen.add(key)
            rows.append({"id": key, "claim": one["claim"], "evidence": one["evidence"]})
    return {"rows": rows, "refused": refused}


def score(labels: dict[str, Any], gold: str) -> dict[str, Any]:
    """The labels beside the gold ones: how many are right, the confusion table, and who decided."""
    truth = {one.get("id", ""): one.get("gold", "") for _, one in _records(gold)}
    columns = [*LABELS, "no label"]
    confusion = {g: dict.fromkeys(columns, 0) for g in LABELS}
    by: dict[str, dict[str, int]] = {}
    scored = right = 0
    for key, one in labels.items():
        if truth.get(key) not in confusion:
            continue
        confusion[truth[key]][one["label"] or "no label"] += 1
        of = by.setdefault(one["decided_by"], {"rows": 0, "right": 0})
        of["rows"] += 1
        if one["label"]:
            scored += 1
            right += one["label"] == truth[key]
            of["right"] += one["label"] == truth[key]
    return {
        "rows": len(labels),
        "scored": scored,
        "right": right,
        "accuracy": round(right / scored, 4) if scored else None,
        "confusion": [{"gold": g, "of": row} for g, row in confusion.items()],
        "by": [{"who": who, **n} for who, n in by.items()],
    }


def failures(
    table: dict[str, Any], undebated: dict[str, Any] | None, unjudged: dict[str, Any] | None, unreviewed: dict[str, Any] | None
) -> list[dict[str, str]]:
    """All rows without a label, with the step that failed and the reason."""
    found = [{"id": one["id"] or f"line {one['line']}", "where": "table", "why": one["why"]} for one in table["refused"]]
    for where, what in (("debate", undebated), ("judge", unjudged), ("second judge", unreviewed)):
        found += [{"id": one["key"], "where": where, "why": one["error"]} for one in (what or {}).get("items", [])]
    return found
