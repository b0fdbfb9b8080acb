"""A tool that calculates: the one that GSM8K's marks `<<48/2=24>>` were made for."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction

_OPERATIONS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.UAdd: operator.pos}


def calculate(expression: str) -> float:
    """The value of an expression of numbers, + - * / and brackets.

    Raises ValueError for anything else.
    """
    return _value(ast.parse(expression.strip(), mode="eval").body)


def as_number(text: str) -> Fraction:
    """A number as GSM8K writes it: `1,000`, `$2.50`, `3/4`. Raises ValueError for anything else."""
    try:
        return Fraction(text.replace(",", "").replace("$", "").replace(" ", ""))
    except ZeroDivisionError:
        raise ValueError(f"{text} is no number") from None


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(left), _value(right))
        case ast.UnaryOp(operation, operand) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(operand))
        case _:
            raise ValueError(f"{ast.unparse(node)} is no sum")
