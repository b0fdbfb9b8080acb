"""Schemas that leave no room for an instruction: what fits one may be trusted, whoever made it.

Narrow are enumerations, numbers, booleans, null, objects of these under names that are fixed, lists of these, and texts that
are matched whole by a pattern that admits no white space. Texts by a pattern are no item of a list: a list of words is a
sentence. The analysis is sound, not complete: a construct that it does not know makes a schema wide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_WIDEST = 0x400                     # characters of one range of a class: a larger one is a script, and some need no spaces
_PLAIN = frozenset({"boolean", "null", "integer", "number"})
_UNICODE = re.UNICODE.value


def narrow(schema: Mapping[str, Any] | None) -> bool:
    """Whether no text that fits a normal-form schema can be an instruction. None, and a python model, are wide."""
    return schema is not None and _narrow(schema, schema.get("$defs", {}), frozenset(), listed=False)


def narrow_pattern(pattern: str) -> bool:
    """Whether a pattern matches whole texts only, and none that holds white space."""
    try:
        found = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    parts = list(found)
    return (found.state.flags & ~_UNICODE == 0 and len(parts) >= 2
            and parts[0] in ((sre.AT, sre.AT_BEGINNING), (sre.AT, sre.AT_BEGINNING_STRING))
            and parts[-1] in ((sre.AT, sre.AT_END), (sre.AT, sre.AT_END_STRING))
            and _spaceless(parts[1:-1]))


def _narrow(node: Mapping[str, Any], named: Mapping[str, Any], within: frozenset[str], *, listed: bool) -> bool:
    """`within`: the definitions that are being looked at; one that holds itself nests without a bound. `listed`: in a list."""
    if "$ref" in node:
        name = str(node["$ref"]).removeprefix("#/$defs/")
        return name not in within and name in named and _narrow(named[name], named, within | {name}, listed=listed)
    for word in ("anyOf", "oneOf"):
        if word in node:
            return all(_narrow(branch, named, within, listed=listed) for branch in node[word])
    if "enum" in node or "const" in node:
        return True                                     # the author's own words
    match node.get("type"):
        case "object":
            return node.get("additionalProperties", True) is False and all(
                _narrow(field, named, within, listed=listed) for field in node.get("properties", {}).values())
        case "array":
            return "items" in node and _narrow(node["items"], named, within, listed=True)
        case "string":
            return not listed and isinstance(node.get("pattern"), str) and narrow_pattern(node["pattern"])
        case kind:
            return isinstance(kind, str) and kind in _PLAIN


def _spaceless(parts: Iterable[tuple[Any, Any]]) -> bool:
    return all(_PARTS[kind](value) if kind in _PARTS else False for kind, value in parts)


def _in_class(members: Iterable[tuple[Any, Any]]) -> bool:
    """A class of characters: each member listed. A negated one admits what nobody thought of."""
    return all(kind in (sre.LITERAL, sre.RANGE, sre.CATEGORY) and _PARTS[kind](value) for kind, value in members)


def _range(ends: tuple[int, int]) -> bool:
    low, high = ends
    return high - low < _WIDEST and not any(_blank(code) for code in range(low, high + 1))


@lru_cache(maxsize=4096)
def _blank(code: int) -> bool:
    """Whether a character is white space, or none that can be seen."""
    return not chr(code).isprintable() or chr(code).isspace()


_PARTS: Mapping[Any, Callable[[Any], bool]] = {
    sre.LITERAL: lambda code: not _blank(code),
    sre.RANGE: _range,
    sre.CATEGORY: lambda category: category in (sre.CATEGORY_DIGIT, sre.CATEGORY_WORD),
    sre.IN: _in_class,
    sre.BRANCH: lambda value: all(_spaceless(branch) for branch in value[1]),
    sre.SUBPATTERN: lambda value: value[1] == 0 and value[2] == 0 and _spaceless(value[3]),
    sre.MAX_REPEAT: lambda value: _spaceless(value[2]),
    sre.MIN_REPEAT: lambda value: _spaceless(value[2]),
}
"""Construct of a parsed pattern → whether its value admits no white space."""
