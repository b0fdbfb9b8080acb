"""Schemas and values in a few words, for messages: `list of {path, purpose}`, `integer, at least 1`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_BOUNDS = {
    "minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}", "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "pattern": "matching {}", "minItems": "at least {} items", "maxItems": "at most {} items",
}
_SHOWN_FIELDS, _SHOWN_CHOICES, _SHOWN_PARTS = 8, 12, 16


def shown(value: object, limit: int = 60) -> str:
    """A value as JSON, cut to about `limit` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()      # half characters too
    except (TypeError, ValueError, RecursionError):
        text = f"a Python {type(value).__name__}"
    return text if len(text) <= limit else f"{text[:limit - 1]}…"


def place(path: Sequence[str | int]) -> str:
    """A path as people write it: `files[2].path`; the empty path is "the value"."""
    text = ""
    if len(path) > _SHOWN_PARTS:
        path = [*path[:_SHOWN_PARTS // 2], "…", *path[-_SHOWN_PARTS // 2:]]
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return f"`{text.encode('utf-8', 'backslashreplace').decode()}`" if text else "the value"


def resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a `$ref` stands for; any other schema as it is. The schema must be in normal form."""
    seen = 0
    while "$ref" in schema and seen <= len(root.get("$defs", {})):
        schema, seen = root["$defs"][schema["$ref"].removeprefix("#/$defs/")], seen + 1
    return schema


def describe(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, *, bounds: bool = False, depth: int = 0) -> str:
    """A normal-form schema in a few words; with `bounds`, its ranges and patterns too."""
    root = schema if root is None else root
    if "$ref" in schema and depth > 1:
        return str(schema["$ref"]).rpartition("/")[2]
    node = resolved(schema, root)
    if "enum" in node:
        return _choices(node["enum"])
    for word in ("anyOf", "oneOf"):
        if word in node:
            parts = [describe(branch, root, bounds=bounds, depth=depth + 1) for branch in node[word]]
            return " or ".join(dict.fromkeys(parts))
    kind = node.get("type")
    if kind == "array":
        text = f"list of {describe(node.get('items', {}), root, depth=depth + 1)}"
    elif kind == "object":
        text = _fields(node)
    else:
        text = "any value" if kind is None else str(kind)
    said = [words.format(node[word]) for word, words in _BOUNDS.items() if word in node] if bounds else []
    if bounds and node.get("uniqueItems"):
        said.append("each different")
    return ", ".join([text, *said])


def _choices(values: Sequence[object]) -> str:
    listed = [shown(value, 30) for value in values[:_SHOWN_CHOICES]]
    more = f" or … ({len(values)} in all)" if len(values) > _SHOWN_CHOICES else ""
    return " or ".join(listed) + more


def _fields(node: Mapping[str, Any]) -> str:
    required = set(node.get("required", ()))
    names = [name if name in required else f"{name}?" for name in node.get("properties", {})]
    if len(names) > _SHOWN_FIELDS:
        names = [*names[:_SHOWN_FIELDS], "…"]
    elif node.get("additionalProperties", True) is not False:
        names.append("…")
    return "{" + ", ".join(names) + "}"
