"""The schema that a server gives for the arguments of a tool, made safe to check arguments against, or refused.

It is JSON Schema (https://json-schema.org/draft/2020-12) as strangers write it. What is taken out is looser without it, never
stricter, and the server checks it itself: regular expressions, which can take ages, and what only older drafts know. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from metaflow_agents.tools.mcp_text import visible

LONGEST = 50_000                    # characters of the schema, as JSON
DEEPEST = 40                        # levels of objects and lists
MOST_STEPS = 10_000                 # schemas that one value is checked against
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_ALONE = ("not", "if", "then", "else")
_LEFT_OUT = frozenset({
    "pattern", "patternProperties", "propertyNames", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary",
    "$comment", "additionalItems", "dependencies", "unevaluatedProperties", "unevaluatedItems", "format",
})
_OTHER_FIELDS = frozenset({"patternProperties", "dependencies", "unevaluatedProperties"})


class SchemaUnusable(ValueError):
    """Arguments can't be checked against a schema; the text says why."""


def bounded(schema: Any) -> dict[str, Any]:
    """The schema of a tool's arguments, as roles are told it and arguments are checked. Quick. Raises SchemaUnusable.

    `refuse_unusable` has to be asked about what it gives.
    """
    if not isinstance(schema, dict):
        raise SchemaUnusable(f"its schema is no object, but {_kind(schema)}")
    if schema.get("type") != "object":
        raise SchemaUnusable(f"its schema's `type` is `{str(schema.get('type'))[:40]}`; arguments are an `object`")
    if _deep(schema) > DEEPEST:
        raise SchemaUnusable(f"its schema is nested deeper than {DEEPEST} levels")
    length = len(json.dumps(schema, ensure_ascii=False))
    if length > LONGEST:
        raise SchemaUnusable(f"its schema has {length:,} characters, more than {LONGEST:,}")
    found: dict[str, Any] = _cleaned(schema)
    fields, required = found.get("properties", {}), found.get("required", [])
    if not isinstance(fields, dict) or not all(isinstance(field, dict | bool) for field in fields.values()):
        raise SchemaUnusable("its schema is no JSON Schema: `properties` is no object of schemas")
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaUnusable("its schema is no JSON Schema: `required` is no list of names")
    return found


def refuse_unusable(schema: Mapping[str, Any]) -> None:
    """Raises SchemaUnusable where a check by the schema would fail, or not end. Takes half a second for the largest ones."""
    _refuse_ill_formed(schema)
    _Walk(schema).refuse_endless()


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", type(None): "nothing", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "something else")


def _deep(value: Any) -> int:
    """How deep it is nested; looked at level by level, so that no depth is too much."""
    level, depth = [value], 0
    while level:
        level = [inner for one in level if isinstance(one, dict | list)
                 for inner in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth


def _cleaned(node: Any, *, names: bool = False) -> Any:
    """A copy without what is left out. `names`: the keys are names of fields or definitions, not words of JSON Schema."""
    if isinstance(node, list):
        return [_cleaned(one) for one in node]
    if isinstance(node, str):
        return visible(node)
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _cleaned(part) for name, part in node.items()}
    loose = "patternProperties" in node or isinstance(node.get("items"), list)
    found = {}
    for word, part in node.items():
        if word in _LEFT_OUT or (word == "items" and isinstance(part, list)):
            continue
        if word == "additionalProperties" and loose:
            continue
        if word in ("enum", "const", "default", "examples", "required", "$ref"):
            found[word] = part
        else:
            found[word] = _cleaned(part, names=word in ("properties", "$defs", "definitions", "dependentSchemas"))
    if "properties" in node and not _OTHER_FIELDS.isdisjoint(node):
        found["additionalProperties"] = True            # else it would be read as if it took no others
    return found


def _refuse_ill_formed(schema: Mapping[str, Any]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path)
        raise SchemaUnusable(f"its schema is no JSON Schema: {place or 'the whole'}: {' '.join(error.message.split())[:200]}")


class _Walk:
    """Follows a schema's references: each has to lead somewhere, none back to itself, and not into too many steps."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def refuse_endless(self) -> None:
        """Looks at every schema in it. Raises SchemaUnusable."""
        open_: list[Any] = [self._root]
        while open_:
            node = open_.pop()
            if isinstance(node, dict):
                self._measured(node)
                open_.extend(_inside(node))

    def _measured(self, node: Any) -> tuple[int, int]:
        """How many schemas a value at this place is checked against, and how many of them one inside the other."""
        if not isinstance(node, dict):
            return 1, 1
        if id(node) in self._open:
            raise SchemaUnusable("its schema is defined as itself, with no field or item between")
        if id(node) not in self._known:
            self._open.add(id(node))
            parts = [self._measured(part) for part in self._here(node)] if len(self._open) <= DEEPEST else [(0, DEEPEST)]
            self._open.discard(id(node))
            self._known[id(node)] = 1 + sum(steps for steps, _ in parts), 1 + max((levels for _, levels in parts), default=0)
        steps, levels = self._known[id(node)]
        if levels > DEEPEST:
            raise SchemaUnusable(f"its schema's references lead on for more than {DEEPEST} levels")
        if steps > MOST_STEPS:
            raise SchemaUnusable(f"its schema takes more than {MOST_STEPS:,} steps to check one value")
        return steps, levels

    def _here(self, node: Mapping[str, Any]) -> Iterator[Any]:
        """The schemas that speak of the same value."""
        for word in _IN_PLACE:
            yield from node.get(word, ())
        for word in _ALONE:
            if word in node:
                yield node[word]
        yield from node.get("dependentSchemas", {}).values()
        if "$dynamicRef" in node:
            raise SchemaUnusable("its `$dynamicRef` leads where only a check would tell")
        if "$ref" in node:
            yield self._target(node["$ref"])

    def _target(self, reference: Any) -> Any:
        """What a JSON pointer leads to (RFC 6901)."""
        found: Any = self._root
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaUnusable(f"its `$ref` leads out of the schema: {str(reference)[:80]}")
        for part in unquote(reference[1:]).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise SchemaUnusable(f"its `$ref` leads nowhere: {reference[:80]}")
            found = found[key]
        return found


def _inside(node: Mapping[str, Any]) -> Iterator[Any]:
    """All schemas that stand in a schema."""
    for word, part in node.items():
        if word in ("properties", "$defs", "definitions", "dependentSchemas") and isinstance(part, dict):
            yield from part.values()
        elif word in _IN_PLACE or word == "prefixItems":
            yield from part
        elif word in (*_ALONE, "items", "additionalProperties", "contains"):
            yield part
