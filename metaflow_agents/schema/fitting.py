"""Whether a value of one shape can ever fit another one: what `sop check` tells of types before there is a value.

It errs on the side of silence: a fault is told only where no value of the given shape fits (of a list: none but the empty one).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from metaflow_agents.errors import nearest
from metaflow_agents.schema.shape import Shape

_FIT: dict[str, frozenset[str]] = {             # kind of the value → kinds that it may be taken for
    "integer": frozenset({"integer", "number"}),
    "number": frozenset({"integer", "number"}),             # 3.0 is an integer
    "object": frozenset({"object", "files", "collection"}),
    "files": frozenset({"object", "files", "collection"}),
    "collection": frozenset({"object", "files", "collection"})}
_MISSING, _MORE = "missing", "more"
_DEEPEST = 16                                   # schemas may refer to themselves


class Misfit(NamedTuple):
    """Why nothing of a shape fits. `path`: where in the value, empty for the whole of it; `found` and `wanted` in words."""

    path: tuple[str, ...]
    found: str
    wanted: str
    kinds: tuple[str, str]
    """The kind that it has, and the kind that it should have; of a field that is missing, the one that may stand for it."""

    def told(self, name: str, verb: str = "is") -> str:
        """In a sentence, of the value called `name`."""
        where = "".join(part if part == "[]" else f".{part}" for part in self.path)
        return f"`{name}{where}` {verb} {self.found}; expected: {self.wanted}"


def misfit(given: Shape, wanted: Shape) -> Misfit | None:
    """The first reason why no value of `given` fits `wanted`; None where some may. What may be missing counts as there."""
    return _misfit(given, wanted, (), 0)


def _misfit(given: Shape, wanted: Shape, path: tuple[str, ...], depth: int) -> Misfit | None:
    if "any" in given.kinds | wanted.kinds or depth > _DEEPEST:
        return None
    if given.branches or wanted.branches:
        return _of_branches(given, wanted, path, depth)
    if wanted.kind not in _FIT.get(given.kind, frozenset({given.kind})):
        return Misfit(path, given.describe(), wanted.describe(), (given.kind, wanted.kind))
    own, there = given.enum(), wanted.enum()
    if own is not None and there is not None and not any(_equal(one, other) for one in own for other in there):
        return Misfit(path, given.describe(), wanted.describe(), (given.kind, wanted.kind))
    if given.kind == "list":
        return _misfit(given.item(), wanted.item(), (*path, "[]"), depth + 1)
    return next(_of_fields(given, wanted, path, depth), None) if given.kind in ("object", "files", "collection") else None


def _of_branches(given: Shape, wanted: Shape, path: tuple[str, ...], depth: int) -> Misfit | None:
    faults = []
    for one in given.branches or (given,):
        for other in wanted.branches or (wanted,):
            fault = _misfit(one, other, path, depth + 1)
            if fault is None:
                return None
            faults.append(fault)
    deeper = [fault for fault in faults if fault.path != path]
    return deeper[0] if len(deeper) == 1 else Misfit(path, given.describe(), wanted.describe(), (given.kind, wanted.kind))


def _of_fields(given: Shape, wanted: Shape, path: tuple[str, ...], depth: int) -> Iterator[Misfit]:
    if "enum" in {*given.schema, *wanted.schema}:
        return
    has, takes = (shape.schema.get("required", ()) if shape.kind == "object" else () for shape in (given, wanted))
    for name in takes:
        if given.kind == "object" and given.field(name) is None:
            instead = nearest(name, [one for one in has if one not in wanted.fields()]) or ""
            yield Misfit((*path, name), "missing", (wanted.field(name) or Shape.any()).describe(), (_MISSING, instead))
    for name in has:
        own, there = given.field(name), wanted.field(name) if wanted.kind == "object" else wanted.element
        if there is None:
            yield Misfit((*path, name), "a field more", f"only {', '.join(wanted.fields())}", (_MORE, ""))
        elif own is not None and (fault := _misfit(own, there, (*path, name), depth + 1)):
            yield fault


def _equal(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


_TURNS: dict[tuple[str, str], str] = {
    ("list", "string"): "join it: `EXPRESSION | join(', ')`", ("string", "list"): "put it into a list: `[EXPRESSION]`",
    ("string", "integer"): "turn it into a number: `EXPRESSION | int`",
    ("string", "number"): "turn it into a number: `EXPRESSION | float`",
    ("list", "integer"): "count it: `EXPRESSION | length`", ("list", "object"): "take one item: `EXPRESSION | first`",
    ("object", "string"): "name one of its fields", ("object", "list"): "name the field that is a list, or write `[EXPRESSION]`"}


def turned(fault: Misfit) -> str:
    """What to write in the expression instead."""
    had, wanted = fault.kinds
    if had in (_MISSING, _MORE):
        return f"{'leave out' if had == _MORE else 'write'} `{fault.path[-1]}`" + (f" where `{wanted}` stands" if wanted else "")
    if had == wanted:
        return "write one of the values that are named"
    if wanted in ("files", "string"):
        return _TURNS.get(fault.kinds, "write a mapping of path to text: `{'PATH': TEXT}`" if wanted == "files" else
                          "turn it into a text: `EXPRESSION | string`")
    return _TURNS.get(fault.kinds, "write an expression that gives it")
