"""The value that the `dry` model gives: what the schema itself offers, else the smallest that is valid."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from pydantic_core import PydanticCustomError

from metaflow_agents.errors import AnswerInvalid, SOPError
from metaflow_agents.schema.checks import number
from metaflow_agents.schema.keywords import OF_NUMBERS
from metaflow_agents.schema.references import target
from metaflow_agents.schema.validation import validator
from metaflow_agents.schema.wording import describe, place

Lists = Literal["one", "outer", "none"]
Path = tuple[str | int, ...]
_MEND = "give it a `default` or `examples`"
_MOST = 10_000                      # values in a value
_LONGEST = 1_000_000                # characters of a text


class SmallestUnknown(SOPError):
    """The smallest valid value of a field can't be found; `field` is its path, `mend` what helps."""

    def __init__(self, field: str, why: str, mend: str = _MEND) -> None:
        self.field, self.why, self.mend = field, why, mend
        super().__init__(f"no smallest value of {field} is known: {why}; {mend}")


class _Endless(Exception):
    """A value would have to hold another one of its own kind."""


def smallest(schema: Mapping[str, Any], name: str, *, lists: Lists = "one") -> Any:
    """The value of the `dry` model: `default`, else the first of `examples`, else the first choice, else the smallest value.

    The smallest: a text is the name of its field, a number the one nearest to 0, a boolean false (true where the field is
    called `ok`), an object its required fields and those with defaults, a union its first branch that is not null. `lists`:
    one item in each, in the outermost only, or none; never fewer than `minItems`. The result is valid.

    Raises SmallestUnknown, naming the field, for a `pattern` that its name does not match, and for a python model.
    """
    if "$python" in schema:
        raise SmallestUnknown(f"`{name}`", f"nothing is known of the python model {schema['$python']} before it is imported",
                              "write the schema in the shorthand or as JSON Schema, or give the artifact a value")
    try:
        value = _Maker(schema, lists).value(schema, name, (), 0, frozenset(), 0)
        return validator(schema, name).validate(value)
    except _Endless:
        raise SmallestUnknown(f"`{name}`", "it would never end") from None
    except _TooLarge:
        raise SmallestUnknown(f"`{name}`", f"it would hold more than {_MOST:,} values") from None
    except AnswerInvalid as refused:
        raise SmallestUnknown(f"`{name}`", str(refused)) from None


class _TooLarge(Exception):
    """A value would hold more values than anybody wants to see."""


class _Maker:
    """Walks one schema. `nth` asks for the nth different value, where a list wants them different."""

    def __init__(self, root: Mapping[str, Any], lists: Lists) -> None:
        self.root, self.lists, self.made = root, lists, 0

    def value(self, node: Mapping[str, Any], name: str, path: Path, listed: int, trail: frozenset[str], nth: int) -> Any:
        self.made += 1
        if self.made > _MOST:               # definitions that hold each other twice, or `minItems: 1e10`
            raise _TooLarge
        offered = _offered(node, nth)
        if offered:
            return copy.deepcopy(offered[0])
        if "$ref" in node:
            # The smallest finite value never meets a definition inside itself: who comes back goes another way.
            if target(node) in trail:
                raise _Endless
            return self.value(self.root["$defs"][target(node)], name, path, listed, trail | {target(node)}, nth)
        if "anyOf" in node or "oneOf" in node:
            return self._union(node, name, path, listed, trail, nth)
        kind = node.get("type")
        if kind == "object":
            fields = node.get("required", ())
            return {field: self.value(node["properties"][field], field, (*path, field), listed, trail, nth) for field in fields}
        if kind == "array":
            return self._list(node, name, path, listed, trail, nth)
        if kind in ("integer", "number"):
            return _number(node, path or (name,), nth)
        if kind == "boolean":
            return (name == "ok") != bool(nth)
        return None if kind == "null" else _text(node, name, path or (name,), nth)

    def _union(self, node: Mapping[str, Any], name: str, path: Path, listed: int, trail: frozenset[str], nth: int) -> Any:
        branches = node.get("anyOf") or node["oneOf"]
        failed: Exception | None = None
        for branch in sorted(branches, key=lambda each: each.get("type") == "null"):
            try:
                value = self.value(branch, name, path, listed, trail, nth)
                if "oneOf" in node:                          # it must fit this branch and no other
                    validator({"oneOf": branches, "$defs": self.root.get("$defs", {})}, name).validate(value)
                return value
            except (_Endless, SmallestUnknown, AnswerInvalid) as error:
                failed = failed or error
        if isinstance(failed, AnswerInvalid):
            raise SmallestUnknown(place(path or (name,)), f"no value fits exactly one of {describe(node, self.root)}")
        raise failed or _Endless

    def _list(self, node: Mapping[str, Any], name: str, path: Path, listed: int, trail: frozenset[str], nth: int) -> list[Any]:
        least, most = node.get("minItems", 0), node.get("maxItems", math.inf)
        wanted = 1 if self.lists == "one" or (self.lists == "outer" and not listed) else 0
        items: list[Any] = []
        for place_ in range(int(min(max(wanted, least), most))):
            different = place_ if node.get("uniqueItems") else 0
            try:
                items.append(self.value(node.get("items", {}), name, (*path, place_), listed + 1, trail, different + nth))
            except _Endless:
                if place_ < least:
                    raise
                break
        return items


def _offered(node: Mapping[str, Any], nth: int) -> list[Any]:
    """What the schema itself offers as the nth value: a list of it, or empty."""
    if "default" in node and nth == 0:
        return [node["default"]]
    for word in ("examples", "enum"):
        if len(node.get(word, ())) > nth:
            return [node[word][nth]]
    return []


def _text(node: Mapping[str, Any], name: str, path: Path, nth: int) -> str:
    least: int = node.get("minLength", 0)
    most: int | None = node.get("maxLength")
    tail = str(nth + 1) if nth else ""
    if least > _LONGEST:
        raise SmallestUnknown(place(path), f"it would have {least:,} characters")
    text = name or "text"
    text = (text * (least // len(text) + 1))[:max(least, len(text))]
    if most is not None:
        text = text[:most]
    if tail:
        room = len(text) if most is not None and len(text) + len(tail) > most else len(text) + len(tail)
        text = text[:max(room - len(tail), 0)] + tail
    pattern = node.get("pattern")
    if pattern is not None and not re.search(pattern, text):
        raise SmallestUnknown(place(path), f"its name does not match its pattern {pattern}")
    return text


def _number(node: Mapping[str, Any], path: Path, nth: int) -> int | float:
    """The nth valid number, by distance from 0."""
    whole = node["type"] == "integer"
    valid = number(node, whole=whole)
    found: list[int | float] = []
    for candidate in _candidates(node, whole, nth):
        try:
            value = valid(candidate)
        except PydanticCustomError:
            continue
        if value not in found:
            found.append(value)
    if len(found) <= nth:
        raise SmallestUnknown(place(path), f"no number was found that is {describe(node, bounds=True)}")
    return sorted(found, key=lambda value: (abs(value), value < 0))[nth]


def _candidates(node: Mapping[str, Any], whole: bool, nth: int) -> list[int | float]:
    """Numbers around 0 and around each bound, on the grid of `multipleOf`; between close bounds the middle."""
    step = Fraction(str(node["multipleOf"])) if "multipleOf" in node else Fraction(1)
    if whole:
        step = Fraction(step.numerator)                      # the multiples of p/q that are whole are those of p
    bounds = [Fraction(str(node[word])) for word in OF_NUMBERS if word in node and word != "multipleOf"]
    reach = range(-nth - 2, nth + 3)
    exact = [(math.floor(start / step) + offset) * step for start in (Fraction(0), *bounds) for offset in reach]
    if not whole and "multipleOf" not in node:
        exact += bounds
        parts = nth + 2
        if len(bounds) > 1:
            low, high = min(bounds), max(bounds)
            exact += [low + (high - low) * part / parts for part in range(1, parts)]
    return [int(each) if each.denominator == 1 else float(each) for each in exact]
