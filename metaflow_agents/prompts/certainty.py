"""Whether an expression can hold at all, told from the few values that are known before a run."""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from jinja2 import nodes

from metaflow_agents.prompts.positions import read_expression
from metaflow_agents.prompts.running import UNREADABLE
from metaflow_agents.prompts.values import MISSING

_UNKNOWN: Final = object()
_EQUALITY = {"eq": eq, "ne": ne}
_ORDER = {"lt": lt, "lteq": le, "gt": gt, "gteq": ge}


def never_holds(expression: str, known: Mapping[str, Any]) -> bool:
    """Whether an expression is false, or fails, whatever the names that are not in `known` stand for.

    `known`: name → number, text, or MISSING. False where that can't be told, and where the expression can't be read.
    """
    try:
        return _truth(read_expression(expression), known) is False
    except UNREADABLE:
        return False


def _truth(node: nodes.Expr, known: Mapping[str, Any]) -> bool | None:
    """True, False, or None where it depends on what is not known."""
    match node:
        case nodes.Not():
            inner = _truth(node.node, known)
            return None if inner is None else not inner
        case nodes.And():
            both = _truth(node.left, known), _truth(node.right, known)
            return False if False in both else None if None in both else True
        case nodes.Or():
            either = _truth(node.left, known), _truth(node.right, known)
            return True if True in either else None if None in either else False
        case _:
            value = _value(node, known)
            return None if value is _UNKNOWN else bool(value)


def _value(node: nodes.Node, known: Mapping[str, Any]) -> Any:
    match node:
        case nodes.Const():
            return node.value
        case nodes.Name():
            return known.get(node.name, _UNKNOWN)
        case nodes.Getattr() | nodes.Getitem():
            return MISSING if _value(node.node, known) is MISSING else _UNKNOWN
        case nodes.Filter(name="length" | "count", args=[]) if node.node is not None:
            return 0 if _value(node.node, known) is MISSING else _UNKNOWN
        case nodes.Test(name="defined"):
            return False if _value(node.node, known) is MISSING else _UNKNOWN
        case nodes.Compare(ops=[only]):
            return _compared(_value(node.expr, known), only.op, _value(only.expr, known))
        case nodes.Not() | nodes.And() | nodes.Or():
            truth = _truth(node, known)
            return _UNKNOWN if truth is None else truth
        case _:
            return _UNKNOWN


def _compared(left: Any, operator: str, right: Any) -> Any:
    """Of numbers, of texts, and of what is missing with anything; to order what is missing fails, and is left open here."""
    if left is _UNKNOWN or right is _UNKNOWN:
        return _UNKNOWN
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    texts = isinstance(left, str) and isinstance(right, str)
    if operator in _EQUALITY and (numbers or texts or left is MISSING or right is MISSING):
        return _EQUALITY[operator](left, right)
    if operator in _ORDER and numbers:
        return _ORDER[operator](left, right)
    return _UNKNOWN
