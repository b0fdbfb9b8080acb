"""Closed schemas: what fits one carries no text that its maker chose, so it may be trusted, whoever made it.

Closed are enumerations, booleans, null, numbers with a lower and an upper bound, objects of these with fixed field names, and
lists of these with a bounded length. A text is never closed, however narrow its pattern: `^[a-z0-9._-]+@…$` admits the address
of an attacker. The analysis is sound, not complete: a construct that it does not know leaves a schema open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


def closed(schema: Mapping[str, Any] | None) -> bool:
    """Whether every value that fits a normal-form schema is the author's choice or a bounded number. None, and a python model,
    are open.
    """
    return schema is not None and _closed(schema, schema.get("$defs", {}), frozenset())


def _closed(node: Mapping[str, Any], named: Mapping[str, Any], within: frozenset[str]) -> bool:
    """`within`: the definitions that are being looked at; one that holds itself nests without a bound."""
    if "$ref" in node:
        name = str(node["$ref"]).removeprefix("#/$defs/")
        return name not in within and name in named and _closed(named[name], named, within | {name})
    for word in ("anyOf", "oneOf"):
        if word in node:
            return all(_closed(branch, named, within) for branch in node[word])
    if "enum" in node or "const" in node:
        return True                                     # the author's own words
    match node.get("type"):
        case "boolean" | "null":
            return True
        case "integer" | "number":
            return any(word in node for word in _LOWER) and any(word in node for word in _UPPER)
        case "object":
            return node.get("additionalProperties", True) is False and all(
                _closed(field, named, within) for field in node.get("properties", {}).values())
        case "array":                                   # a list without a bound spells out a text, item by item
            return "items" in node and "maxItems" in node and _closed(node["items"], named, within)
    return False
