"""What filters give, as far as it can be known from what they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metaflow_agents.schema.shape import Shape

TEXT, NUMBER, INTEGER, BOOLEAN, NULL, ANY = (
    *(Shape.of({"type": name}) for name in ("string", "number", "integer", "boolean", "null")), Shape.any())

SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})

FIXED: dict[str, Shape] = {
    **dict.fromkeys(("length", "count", "wordcount", "int"), INTEGER),
    **dict.fromkeys(("abs", "round", "float", "sum"), NUMBER),
    **dict.fromkeys(("capitalize", "center", "e", "escape", "filesizeformat", "format", "indent", "join", "json", "lower",
                     "markdown_text", "replace", "string", "title", "tojson", "trim", "truncate", "upper", "urlencode",
                     "wordwrap"), TEXT),
    **dict.fromkeys(("lines", "split", "keys"), Shape.list_of(TEXT)),
    **dict.fromkeys(("items", "dictsort"), Shape.list_of(Shape.list_of(ANY))),
}
SAME_LIST = frozenset({"list", "sort", "unique", "select", "reject", "selectattr", "rejectattr"})
WALKERS = SAME_LIST | {"map", "join", "min", "max", "sum", "groupby", "batch", "slice", "first", "last", "reverse"}
"""Filters that take a list; text is walked over by some of them only."""
TEXT_WALKERS = frozenset({"list", "first", "last", "reverse"})


def item_of(shape: Shape) -> Shape:
    """What a filter meets when it walks over the value."""
    if shape.kind == "string":
        return TEXT
    return ANY if shape.kinds <= SCALARS else shape.item()


def value_of(shape: Shape) -> Shape:
    """The shape of the values of a mapping, a collection or a set of files."""
    if shape.kind in ("files", "collection"):
        return shape.element or ANY
    if shape.kind == "object" and shape.fields():
        return Shape.union(*(shape.field(name) or ANY for name in shape.fields()))
    return ANY


def _defaulted(shape: Shape, args: list[Shape]) -> Shape:
    fallback = args[0] if args else TEXT
    sure = replace(shape, optional=False)
    return Shape.union(sure, fallback) if shape.optional else sure


_MADE: dict[str, Callable[[Shape, list[Shape]], Shape]] = {
    "first": lambda shape, args: item_of(shape).as_optional(),
    "last": lambda shape, args: item_of(shape).as_optional(),
    "min": lambda shape, args: item_of(shape).as_optional(),
    "max": lambda shape, args: item_of(shape).as_optional(),
    "reverse": lambda shape, args: shape if shape.kind in ("string", "list") else Shape.list_of(item_of(shape)),
    "values": lambda shape, args: Shape.list_of(value_of(shape)),
    "batch": lambda shape, args: Shape.list_of(Shape.list_of(item_of(shape))),
    "slice": lambda shape, args: Shape.list_of(Shape.list_of(item_of(shape))),
    "default": _defaulted,
    "d": _defaulted,
}


def filtered(name: str, shape: Shape, args: list[Shape]) -> Shape:
    """What a filter (but `map` and `groupby`, which name attributes) gives for a value of this shape."""
    if name in FIXED:
        return FIXED[name]
    if name in SAME_LIST:
        return Shape.list_of(item_of(shape))
    return _MADE[name](shape, args) if name in _MADE else ANY
