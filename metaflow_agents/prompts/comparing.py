"""Comparisons that can never hold: another type, or a value that an enumeration lacks."""

from __future__ import annotations

from typing import Any

from metaflow_agents.errors import nearest
from metaflow_agents.prompts.operations import equal
from metaflow_agents.schema.shape import Shape

_NUMBERS = frozenset({"number", "integer"})


def _families(shape: Shape) -> frozenset[str]:
    names = {"number" if kind in _NUMBERS else "object" if kind in ("files", "collection") else kind for kind in shape.kinds}
    return frozenset(names)


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "none" if value is None else repr(value)


def literal_fault(shape: Shape, value: Any) -> tuple[str, str] | None:
    """Why a value of this shape never equals the literal, as (message, mend); None where it may."""
    if shape.kind == "any":
        return None
    choices = shape.enum()
    if choices is not None:
        if any(equal(choice, value) for choice in choices):
            return None
        close = nearest(value, [choice for choice in choices if isinstance(choice, str)]) if isinstance(value, str) else None
        mend = f"did you mean {close!r}? " if close else ""
        return (f"the value is never {_shown(value)}", f"{mend}there is: {', '.join(map(_shown, choices))}")
    families = _families(shape)
    mine = ("null" if value is None else "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float)
            else "string" if isinstance(value, str) else None)
    if mine is None or mine in families or "any" in families:
        return None
    if value is None:
        mend = "what is missing is falsy: write `not x`, or `x is defined`" if shape.optional else "leave the comparison out"
        return ("the value is never null", mend)
    return (f"the value is {shape.describe()}, never {_shown(value)}", f"compare with {' or '.join(sorted(families))}")


def shapes_fault(left: Shape, right: Shape, ordered: bool) -> tuple[str, str] | None:
    """Why two values never are equal (or never have an order), as (message, mend)."""
    ours, theirs = _families(left), _families(right)
    if "any" in ours | theirs:
        return None
    if not ours & theirs:
        what = "have no order" if ordered else "are never equal"
        return (f"{left.describe()} and {right.describe()} {what}", "compare values of one type")
    if ordered and not ours & theirs & {"number", "string", "list"}:
        return (f"{left.describe()} has no order", "order numbers, texts or lists")
    return None
