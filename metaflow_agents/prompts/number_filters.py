"""Filters that take a number, or read one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.filter_making import Filter, registering, whole
from metaflow_agents.prompts.operations import bounded, is_number, kind
from metaflow_agents.prompts.values import MISSING

NUMBER_FILTERS: dict[str, Filter] = {}
_filter = registering(NUMBER_FILTERS)


@_filter("abs")
def absolute(value: Any) -> Any:
    """Without its sign."""
    if not is_number(value):
        raise ExpressionError(f"`abs` takes a number, this is {kind(value)}")
    return abs(value)


@_filter("round")
def rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
    """Rounded, `common`, `ceil` or `floor`, to so many places."""
    if not is_number(value) or method not in ("common", "ceil", "floor"):
        raise ExpressionError("`round` takes a number, and the method is `common`, `ceil` or `floor`")
    places = whole(precision, "the precision", -300, 300)
    if method == "common":
        return bounded(round(value, places))
    factor = 10.0**places
    scaled = value * factor
    return bounded((scaled // 1 if method == "floor" else -(-scaled // 1)) / factor)


def _number(value: Any, fallback: Any, read: Callable[[Any], Any]) -> Any:
    if value is MISSING:
        raise ExpressionError("what is missing is no number; fix: `| default(0)` before it")
    try:
        return bounded(read(value))
    except (TypeError, ValueError, OverflowError):
        return fallback


@_filter("int")
def integer(value: Any, default: Any = 0, base: int = 10) -> Any:
    """A whole number, or the default where it can't be read."""
    if isinstance(value, str):
        return _number(value, default, lambda text: int(text, base) if base != 10 or "." not in text else int(float(text)))
    return _number(value, default, int)


@_filter("float")
def floating(value: Any, default: Any = 0.0) -> Any:
    """A number, or the default where it can't be read."""
    return _number(value, default, float)


@_filter("filesizeformat")
def filesize(value: Any, binary: bool = False) -> str:
    """A size in bytes, for people: `13 kB`."""
    if not is_number(value):
        raise ExpressionError(f"`filesizeformat` takes a number, this is {kind(value)}")
    base, size = (1024 if binary else 1000), float(value)
    for unit in ("Bytes", "KiB" if binary else "kB", "MiB" if binary else "MB", "GiB" if binary else "GB"):
        if abs(size) < base:
            return f"{size:.0f} {unit}" if unit == "Bytes" else f"{size:.1f} {unit}"
        size /= base
    return f"{size:.1f} {'TiB' if binary else 'TB'}"
