"""A condition taken apart, to tell which part of it does not hold: the claims that `and` joins, and the two sides of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import nodes

from metaflow_agents.prompts.positions import read_expression, tokens
from metaflow_agents.prompts.running import UNREADABLE

_COMPARES = frozenset({"==", "!=", "<", ">", "<=", ">=", "in", "not"})      # `not in` begins with `not`


class Claim(NamedTuple):
    """One part of a condition, as it is written. `sides`: what it compares; empty where it compares nothing."""

    text: str
    line: int
    column: int
    sides: tuple[str, ...] = ()


def claims(expression: str) -> tuple[Claim, ...]:
    """The parts of a condition that all have to hold; the whole one where it can't be taken apart, or not be read."""
    return tuple(_claims(expression, 0, len(expression)))


def _claims(text: str, begin: int, end: int) -> Iterator[Claim]:
    part = text[begin:end]
    own = part.strip()
    at = begin + part.find(own)
    try:
        tree = read_expression(own)
    except UNREADABLE:
        yield _claim(text, at, own)
        return
    found = [(start, word) for start, word in _outermost(own) if word == "and"] if isinstance(tree, nodes.And) else []
    if found:
        starts = [0, *(start + len("and") for start, _ in found)]
        ends = [*(start for start, _ in found), len(own)]
        for one, other in zip(starts, ends, strict=True):
            yield from _claims(text, at + one, at + other)
        return
    yield _claim(text, at, own, _sides(own) if isinstance(tree, nodes.Compare) and len(tree.ops) == 1 else ())


def _claim(text: str, at: int, own: str, sides: tuple[str, ...] = ()) -> Claim:
    return Claim(own, text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1, sides)


def _sides(text: str) -> tuple[str, ...]:
    for start, word in _outermost(text):
        if word in _COMPARES:
            behind = text[start + len(word):]
            return text[:start].strip(), behind.lstrip().removeprefix("in").strip() if word == "not" else behind.strip()
    return ()


def _outermost(text: str) -> Iterator[tuple[int, str]]:
    """The tokens that stand in no brackets, each with its place."""
    depth = 0
    for start, kind, word in tokens(text):
        depth -= kind == "operator" and word in (")", "]", "}")
        if not depth and kind in ("name", "operator"):
            yield start, word
        depth += kind == "operator" and word in ("(", "[", "{")
