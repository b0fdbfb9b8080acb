"""Types as they are written, compared only where two of them can't both be right."""

from __future__ import annotations

import ast

from metaflow_agents.kits.python_package.names import last_name

_PLAIN = {
    "int": "number", "float": "number", "complex": "number", "bool": "number", "str": "str", "bytes": "bytes", "None": "None",
    "list": "list", "List": "list", "dict": "dict", "Dict": "dict", "set": "set", "Set": "set", "frozenset": "frozenset",
    "FrozenSet": "frozenset", "tuple": "tuple", "Tuple": "tuple", "Decimal": "Decimal", "Fraction": "Fraction", "Path": "Path",
    "date": "date", "datetime": "date", "time": "time", "timedelta": "timedelta",
}
"""Types that no alias hides, and which of them stand for each other: an `int` where a `float` is declared is no contradiction."""


def contradict(declared: ast.expr | None, written: ast.expr | None) -> bool:
    """Whether no value fits both types.

    False where either is left out, or holds anything but plain types of the standard library.
    """
    ours, theirs = _heads(declared), _heads(written)
    return ours is not None and theirs is not None and not ours & theirs


def _heads(node: ast.expr | None) -> frozenset[str] | None:
    """The kinds of values that a type admits; None where that can't be told."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return _heads(ast.parse(node.value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if isinstance(node, ast.Constant):
        return frozenset({"None"}) if node.value is None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([node.left, node.right])
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Optional":
        inner = _heads(node.slice)
        return None if inner is None else inner | {"None"}
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Union":
        return _union(node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
    found = _PLAIN.get(last_name(node))
    return None if found is None else frozenset({found})


def _union(parts: list[ast.expr]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for part in parts:
        heads = _heads(part)
        if heads is None:
            return None
        found |= heads
    return found
