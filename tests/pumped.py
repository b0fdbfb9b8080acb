"""Texts on which a regular expression of the package takes longest: what it may repeat, repeated, with an end that fails.

A pattern that reads foreign bytes must take linear time, or its text must be bounded first
(https://cwe.mitre.org/data/definitions/1333.html).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser
from typing import Any, NamedTuple

METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
ENDS = ("\x00", " x", "")
MOST = 120                                          # texts of one pattern
_SIGNS = " a\n1.-'\"\\/{[(<_`*\t=:,#%$é0"
_CLASSES = {ops.CATEGORY_SPACE: r"\s", ops.CATEGORY_DIGIT: r"\d", ops.CATEGORY_WORD: r"\w",
            ops.CATEGORY_NOT_SPACE: r"\S", ops.CATEGORY_NOT_DIGIT: r"\D", ops.CATEGORY_NOT_WORD: r"\W"}
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)


class Written(NamedTuple):
    """A pattern that is a constant of the package, and the methods that it is used with."""

    place: str
    pattern: re.Pattern[str]
    methods: tuple[str, ...]


def written(package: Path) -> Iterator[Written]:
    """Every constant pattern of a package."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(package.rglob("*.py"))}
    everywhere = _methods(trees.values())
    for path, tree in trees.items():
        here = _methods([tree])
        texts: dict[str, str] = {}
        names: dict[ast.AST, str] = {}
        chained: dict[ast.AST, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                chained[node.value] = {node.attr}
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names[node.value] = node.targets[0].id
                constant = _constant(node.value, texts)
                if constant is not None:
                    texts[node.targets[0].id] = constant
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
                    and isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
                    and node.func.attr in ("compile", *METHODS)):
                continue
            pattern = _constant(node.args[0], texts)
            if pattern is None:
                continue
            flags = re.RegexFlag(0)
            for given in [*node.args[1:], *(keyword.value for keyword in node.keywords)]:
                for part in ast.walk(given):
                    if isinstance(part, ast.Attribute) and isinstance(getattr(re, part.attr, None), re.RegexFlag):
                        flags |= getattr(re, part.attr)
            name = names.get(node, "")
            used = {node.func.attr} if node.func.attr != "compile" else (
                chained.get(node) or here.get(name) or everywhere.get(name) or set(METHODS))
            yield Written(f"{path.relative_to(package)}:{node.lineno}", re.compile(pattern, flags), tuple(sorted(used)))


def pumps(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Texts of about `length` characters, at most `MOST`."""
    seen: set[tuple[str, str]] = set()
    parsed = list(parser.parse(pattern.pattern, pattern.flags))
    ends = (*ENDS, *dict.fromkeys(islice(_stops(parsed), 8)))
    for before, unit in islice(_pumps(parsed, [""]), MOST):
        if unit and (before, unit) not in seen:
            seen.add((before, unit))
            for end in ends:
                yield before + unit * (length // len(unit)) + end


def _stops(part: Any) -> Iterator[str]:
    """What a negated class of the pattern leaves out: up to there it goes on, and what follows does not fit."""
    if isinstance(part, tuple) and len(part) == 2 and part[0] is ops.NOT_LITERAL:
        yield chr(part[1])
    elif isinstance(part, tuple) and len(part) == 2 and part[0] is ops.IN and (ops.NEGATE, None) in part[1]:
        yield from (chr(value) for kind, value in part[1] if kind is ops.LITERAL)
    elif isinstance(part, list | tuple | parser.SubPattern):
        for one in part:
            yield from _stops(one)


def _methods(trees: Iterable[ast.AST]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                owner = node.value
                name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else None
                if name is not None:
                    found.setdefault(name, set()).add(node.attr)
    return found


def _constant(node: ast.AST, texts: dict[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(data)):
            return data.decode("latin-1")
        case ast.Name(id=name):
            return texts.get(name)
        case ast.FormattedValue(value=value):
            return _constant(value, texts)
        case ast.JoinedStr(values=values):
            parts = [_constant(value, texts) for value in values]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_constant(left, texts), _constant(right, texts)]
        case _:
            return None
    return None if None in parts else "".join(part for part in parts if part is not None)


def _pumps(sequence: list[Any], before: list[str]) -> Iterator[tuple[str, str]]:
    """(what stands before, what is repeated), for each repetition in a pattern and for each of its beginnings."""
    for at, (op, value) in enumerate(sequence):
        led = [one + two for one in before for two in _samples(sequence[:at])[:4]][:6]
        if op in _REPEATS:
            _, high, inner = value
            if high > 50:
                for unit in _samples(inner)[:6]:
                    yield from ((one, unit) for one in led[:4])
                for unit in _samples(inner)[:3]:
                    yield from (("", unit + after) for after in _samples(sequence[at + 1:])[:3])
            yield from _pumps(list(inner), led)
        else:
            for inner in _within(op, value):
                yield from _pumps(list(inner), led)
    for end in range(1, len(sequence) + 1):
        yield from (("", unit) for unit in _samples(sequence[:end])[:4])


def _within(op: Any, value: Any) -> list[Any]:
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op is ops.ATOMIC_GROUP:
        return [value]
    if op is ops.BRANCH:
        return list(value[1])
    return [value[1]] if op in (ops.ASSERT, ops.ASSERT_NOT) else []


def _samples(sequence: Iterable[Any]) -> list[str]:
    """A few texts that fit a pattern."""
    found = [""]
    for op, value in sequence:
        found = [one + two for one in found for two in _sample(op, value)][:12]
    return found


def _sample(op: Any, value: Any) -> list[str]:
    if op is ops.LITERAL:
        return [chr(value)]
    if op is ops.ANY:
        return ["a", " "]
    if op is ops.NOT_LITERAL:
        return [sign for sign in _SIGNS if ord(sign) != value][:3]
    if op is ops.IN:
        return _of_class(value)[:4] or [""]
    if op in _REPEATS:
        low, _, inner = value
        return [one * low for one in _samples(inner)[:4]] if low else ["", *_samples(inner)[:3]]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [""]
    inside = [one for inner in _within(op, value) for one in _samples(inner)[:2 if op is ops.BRANCH else 12]]
    return inside or [""]


def _of_class(parts: list[Any]) -> list[str]:
    """Signs that a character class takes: the common ones, and the first of each of its own ranges."""
    negated = parts[0][0] is ops.NEGATE

    def holds(sign: str) -> bool:
        return any((op is ops.LITERAL and ord(sign) == value) or (op is ops.RANGE and value[0] <= ord(sign) <= value[1])
                   or (op is ops.CATEGORY and re.match(_CLASSES[value], sign) is not None) for op, value in parts)

    own = [chr(value if op is ops.LITERAL else value[0]) for op, value in parts if op in (ops.LITERAL, ops.RANGE)]
    return [sign for sign in dict.fromkeys([*([] if negated else own), *_SIGNS]) if holds(sign) != negated]
