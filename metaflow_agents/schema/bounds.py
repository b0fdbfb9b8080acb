"""The bounds of texts, numbers and lists in a written JSON Schema: lengths, ranges, patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from metaflow_agents.schema.faults import Faults, Path
from metaflow_agents.schema.references import Node
from metaflow_agents.schema.wording import shown
from metaflow_agents.texts.strict_json import finite


def string_bounds(written: Mapping[str, Any], path: Path, faults: Faults) -> Node:
    """`minLength`, `maxLength` and `pattern`."""
    node = _range(written, path, faults, "minLength", "maxLength", whole=True)
    if "pattern" in written:
        try:
            re.compile(written["pattern"])
            node["pattern"] = written["pattern"]
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            faults.add("pattern", (*path, "pattern"), f"`pattern` is {shown(written['pattern'])}: {error}",
                       "write a regular expression; backslashes stand once in YAML's single quotes")
    return node


def list_bounds(written: Mapping[str, Any], path: Path, faults: Faults) -> Node:
    """`minItems`, `maxItems` and `uniqueItems`."""
    node = _range(written, path, faults, "minItems", "maxItems", whole=True)
    different = written.get("uniqueItems", False)
    if not isinstance(different, bool):
        faults.add("value", (*path, "uniqueItems"), f"`uniqueItems` is {shown(different)}", "write true or false")
    elif different:
        node["uniqueItems"] = True
    return node


def number_bounds(written: Mapping[str, Any], path: Path, faults: Faults) -> Node:
    """`minimum`, `maximum`, their exclusive forms, and `multipleOf`."""
    node = {**_range(written, path, faults, "minimum", "maximum"),
            **_range(written, path, faults, "exclusiveMinimum", "exclusiveMaximum")}
    lows = [node[word] for word in ("minimum", "exclusiveMinimum") if word in node]
    highs = [node[word] for word in ("maximum", "exclusiveMaximum") if word in node]
    strict = any(word in node for word in ("exclusiveMinimum", "exclusiveMaximum"))
    if strict and lows and highs and max(lows) >= min(highs):
        faults.add("range", path, f"no number lies between {shown(max(lows))} and {shown(min(highs))}", "widen the range")
    if "multipleOf" in written:
        step = written["multipleOf"]
        if _is_number(step) and step > 0:
            node["multipleOf"] = step
        else:
            faults.add("range", (*path, "multipleOf"), f"`multipleOf` is {shown(step)}", "write a number above 0")
    return node


def _range(written: Mapping[str, Any], path: Path, faults: Faults, low: str, high: str, *, whole: bool = False) -> Node:
    node: Node = {}
    for word in (low, high):
        if word not in written:
            continue
        value = written[word]
        if not _is_number(value) or (whole and (value < 0 or value != int(value))):
            mend = "write a whole number, 0 or more" if whole else f"write a number, like `{word}: 0`"
            faults.add("range", (*path, word), f"`{word}` is {shown(value)}", mend)
        else:
            node[word] = int(value) if whole else value
    if low in node and high in node and node[low] > node[high]:
        faults.add("range", (*path, low), f"`{low}` is {node[low]} and `{high}` is {node[high]}: nothing fits", "exchange them")
    return node


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and finite(value)
