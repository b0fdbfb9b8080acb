"""What JSON Schema checks and pydantic does not, or not in JSON Schema's sense, as functions value → value."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic_core import PydanticCustomError

from metaflow_agents.texts.strict_json import DEEPEST, finite


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than `DEEPEST`, as one that holds itself is."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner = [part for part in level if isinstance(part, list | dict)]
        if not inner:
            return False
        # Each container once a level: a value that holds itself several times would double with every one.
        level = [part for each in {id(each): each for each in inner}.values()
                 for part in (each.values() if isinstance(each, dict) else each)]
    return True


def identity(value: Any) -> Any:
    """A hashable stand-in, equal for values that are equal in JSON: `1` equals `1.0`, but never `true`."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, Mapping):
        return "object", frozenset((key, identity(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "array", tuple(identity(inner) for inner in value)
    return value


def json_value(value: Any) -> Any:
    """A fresh copy of any JSON value, its keys sorted. What is none (a set, a date, NaN) is refused.

    Not for values that may be `too_deep`.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and _encodable(value):
        return value
    if isinstance(value, int | float) and finite(value):
        return value
    if isinstance(value, list):
        return [json_value(inner) for inner in value]
    if isinstance(value, dict) and all(isinstance(key, str) and _encodable(key) for key in value):
        return {key: json_value(value[key]) for key in sorted(value)}
    raise PydanticCustomError("not_json", "no JSON value")


def is_json(value: Any) -> bool:
    """Whether a value is JSON, and not `too_deep`."""
    if too_deep(value):
        return False
    try:
        json_value(value)
    except ValueError:
        return False
    return True


def _encodable(text: str) -> bool:
    """Lone surrogates have no bytes, so neither the journal nor an endpoint could take them."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def choice(values: Sequence[Any]) -> Callable[[Any], Any]:
    """One of the values, compared as JSON compares; gives the value as the schema spells it."""
    known = {identity(value): value for value in values}

    def check(value: Any) -> Any:
        try:
            return copy.deepcopy(known[identity(value)])
        except (KeyError, TypeError, RecursionError):
            raise PydanticCustomError("choice", "none of the choices") from None
    return check


def text(pattern: str | None) -> Callable[[str], str]:
    """A text with bytes, in which the pattern is found anywhere, as JSON Schema has it; Python's `re` reads it.

    `$` is the end of the text and nothing else, as in JSON Schema: no line break may follow. A pattern that may go back and forth
    for ever on a text that somebody made for it is given a second; then the text does not match.
    """
    found = None if pattern is None else re.compile(_to_the_end(pattern))
    most = _LONG if pattern is None or not may_be_slow(pattern) else _TINY if _EXPONENTIAL.search(pattern) else _SHORT

    def check(value: str) -> str:
        if not _encodable(value):
            raise PydanticCustomError("not_json", "lone surrogates")
        if found is not None and not (_in_time(found.pattern, value) if len(value) > most else found.search(value)):
            raise PydanticCustomError("pattern", "does not match")
        return value
    return check


_EXPONENTIAL = re.compile(r"\)[*+?{]|\\\d")
_CUBIC = re.compile(r"[*+}].*[*+}].*[*+}]")
_SHORT = 300                        # characters, up to which a pattern of cubic time is quick
_TINY = 24                          # and up to which one of exponential time takes no longer than it is given
_LONG = 10_000                      # characters, from which on two repetitions in a pattern are slow as well
_SECONDS = 1.0


def may_be_slow(pattern: str) -> bool:
    """Whether a regular expression may take exponential or cubic time (https://cwe.mitre.org/data/definitions/1333.html)."""
    return _EXPONENTIAL.search(pattern) is not None or _CUBIC.search(pattern) is not None


def _in_time(pattern: str, value: str) -> bool:
    import regex  # which can be stopped; it reads what `re` reads

    try:
        return regex.search(pattern, value, timeout=_SECONDS) is not None
    except TimeoutError:
        raise PydanticCustomError("pattern", "takes too long to match") from None


_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)|\$", re.DOTALL)
_FLAGS = re.compile(r"\(\?[a-zA-Z-]*[mx]")


def _to_the_end(pattern: str) -> str:
    r"""The pattern with `\Z` for each `$` that is an anchor: Python's own `$` lets a line break follow.

    Under the flags of Python's own that speak of lines and layout, `$` means what they say.
    """
    if "$" not in pattern or _FLAGS.search(pattern):
        return pattern
    return _PART.sub(lambda part: r"\Z" if part[0] == "$" else part[0], pattern)


def others_sorted(declared: Collection[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """No key is text without bytes; those that the schema does not declare come last, sorted: it gives them no order."""

    def check(value: dict[str, Any]) -> dict[str, Any]:
        if not all(map(_encodable, value)):
            raise PydanticCustomError("not_json", "lone surrogates")
        others = sorted(key for key in value if key not in declared)
        return {key: value[key] for key in (*(key for key in value if key in declared), *others)}

    return check


def number(node: Mapping[str, Any], *, whole: bool) -> Callable[[Any], int | float]:
    """A finite number within the node's bounds; an integer stays one, so that large ones keep all their digits. One beyond
    doubles is none: what calculates with it later could not.
    """
    inside = _within(node)

    def check(value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not finite(value):
            raise PydanticCustomError("number", "no number")
        found: int | float = value
        if whole and isinstance(value, float):
            if not value.is_integer():
                raise PydanticCustomError("number", "no integer")
            found = int(value)
        if not inside(found):
            raise PydanticCustomError("number", "out of range")
        return found
    return check


def _within(node: Mapping[str, Any]) -> Callable[[int | float], bool]:
    low, over = node.get("minimum", -math.inf), node.get("exclusiveMinimum", -math.inf)
    high, under = node.get("maximum", math.inf), node.get("exclusiveMaximum", math.inf)
    step = node.get("multipleOf")

    def check(value: int | float) -> bool:
        return low <= value <= high and over < value < under and (step is None or is_multiple(value, step))
    return check


def is_multiple(value: int | float, step: int | float) -> bool:
    """Whether a number is a multiple of another, exact in decimals."""
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    value_over, value_under = Decimal(repr(value)).as_integer_ratio()
    step_over, step_under = Decimal(repr(step)).as_integer_ratio()
    return (value_over * step_under) % (value_under * step_over) == 0


def unique(items: list[Any]) -> list[Any]:
    """No two items are equal in JSON."""
    if len({identity(item) for item in items}) < len(items):
        raise PydanticCustomError("unique", "equal items")
    return items
