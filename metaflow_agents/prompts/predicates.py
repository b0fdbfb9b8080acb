"""The tests of expressions and templates: what may stand after `is`, and in `select('…')`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.operations import COMPARE, calculate, contains, equal, is_number, kind
from metaflow_agents.prompts.values import MISSING


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"this test takes text, the value is {kind(value)}")
    return value


def _begins(value: Any, start: Any) -> bool:
    return isinstance(value, str) and value.startswith(_text(start))


def _ends(value: Any, end: Any) -> bool:
    return isinstance(value, str) and value.endswith(_text(end))


TESTS: dict[str, Callable[..., bool]] = {
    "defined": lambda value: value is not MISSING,
    "undefined": lambda value: value is MISSING,
    "none": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, float),
    "number": is_number,
    "string": lambda value: isinstance(value, str),
    "mapping": lambda value: isinstance(value, Mapping),
    "sequence": lambda value: isinstance(value, list | tuple | str),
    "iterable": lambda value: isinstance(value, list | tuple | str | Mapping),
    "odd": lambda value: calculate("%", value, 2) == 1,
    "even": lambda value: calculate("%", value, 2) == 0,
    "divisibleby": lambda value, divisor: calculate("%", value, divisor) == 0,
    "lower": lambda value: _text(value).islower(),
    "upper": lambda value: _text(value).isupper(),
    "in": lambda value, container: contains(container, value),
    "startingwith": _begins,
    "endingwith": _ends,
    "containing": lambda value, part: contains(value, part),
    **dict.fromkeys(("==", "eq", "equalto", "sameas"), equal),
    **dict.fromkeys(("!=", "ne"), COMPARE["ne"]),
    **dict.fromkeys((">", "gt", "greaterthan"), COMPARE["gt"]),
    **dict.fromkeys((">=", "ge"), COMPARE["gteq"]),
    **dict.fromkeys(("<", "lt", "lessthan"), COMPARE["lt"]),
    **dict.fromkeys(("<=", "le"), COMPARE["lteq"]),
}
