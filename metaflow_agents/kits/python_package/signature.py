"""Parameters of functions, read from their text: what differs between two of them, and which calls can't bind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["positional", "plain", "many", "keyword", "rest"]
"""`positional` stands before `/`, `keyword` behind `*`, `many` is `*args`, `rest` is `**kwargs`."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """One parameter. `annotation` is its type as it is written, if it has one."""

    name: str
    kind: Kind
    default: bool = False
    annotation: ast.expr | None = None

    def __str__(self) -> str:
        return {"many": "*", "rest": "**"}.get(self.kind, "") + self.name + ("=…" if self.default else "")


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The parameters of a function in their order, and the type it gives back, where that is written."""

    parameters: tuple[FunctionParameter, ...] = ()
    returns: ast.expr | None = None

    @staticmethod
    def of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionSignature:
        """The signature that a definition has."""
        returns = None if isinstance(node, ast.Lambda) else node.returns
        return FunctionSignature(tuple(_parameters(node.args)), returns)

    def bound(self) -> FunctionSignature:
        """Without its first positional parameter, which the object or the class fills; `*args` takes it just as well."""
        if self.parameters and self.parameters[0].kind in ("positional", "plain"):
            return FunctionSignature(self.parameters[1:], self.returns)
        return self

    @property
    def places(self) -> list[FunctionParameter]:
        """Those that an argument without a name can fill, in order."""
        return [one for one in self.parameters if one.kind in ("positional", "plain")]

    def named(self, name: str) -> FunctionParameter | None:
        """The parameter of that name, `*args` and `**kwargs` left out."""
        return next((one for one in self.parameters if one.name == name and one.kind not in ("many", "rest")), None)

    def takes(self, kind: Kind) -> bool:
        """Whether it has a parameter of this kind."""
        return any(one.kind == kind for one in self.parameters)

    @property
    def required(self) -> list[FunctionParameter]:
        """Those that every call has to fill."""
        return [one for one in self.parameters if one.kind not in ("many", "rest") and not one.default]

    def __str__(self) -> str:
        written: list[str] = []
        before: Kind = "positional"
        for one in self.parameters:
            if before == "positional" and one.kind != "positional" and written:
                written.append("/")
            if one.kind == "keyword" and before in ("positional", "plain"):
                written.append("*")
            written.append(str(one))
            before = one.kind
        if before == "positional" and written:
            written.append("/")
        return f"({', '.join(written)})"


def _parameters(args: ast.arguments) -> Iterator[FunctionParameter]:
    places = [*args.posonlyargs, *args.args]
    bare = len(places) - len(args.defaults)
    for index, arg in enumerate(places):
        yield FunctionParameter(
            arg.arg, "positional" if index < len(args.posonlyargs) else "plain", index >= bare, arg.annotation
        )
    if args.vararg:
        yield FunctionParameter(args.vararg.arg, "many", annotation=args.vararg.annotation)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield FunctionParameter(arg.arg, "keyword", default is not None, arg.annotation)
    if args.kwarg:
        yield FunctionParameter(args.kwarg.arg, "rest", annotation=args.kwarg.annotation)


def differences(declared: FunctionSignature, written: FunctionSignature) -> list[str]:
    """Why calls that the declared signature allows would fail, or mean something else, with the one that is written.

    More parameters are allowed if they have defaults and displace nothing; a default where none was declared is too.
    """
    told: list[str] = []
    for place, wanted in enumerate(declared.places):
        told += _displaced(wanted, place, written, taken=declared.takes("rest"))
    for wanted in declared.parameters:
        if wanted.kind == "keyword":
            told += _unnamed(wanted, written, places=declared.takes("many"))
        elif wanted.kind in ("many", "rest") and not written.takes(wanted.kind):
            told.append(f"`{wanted}` is missing")
    names = {one.name for one in declared.parameters if one.kind != "positional"}
    for place, one in enumerate(written.parameters):
        if one.kind in ("many", "rest") or one.name in names or (one.kind != "keyword" and place < _positional(declared)):
            continue
        if not one.default:
            told.append(f"`{one.name}` is a parameter more, without a default")
        elif declared.takes("many") and one.kind != "keyword":
            told.append(f"`{one.name}` takes what was meant for `*args`")
    return told


def _positional(signature: FunctionSignature) -> int:
    return sum(one.kind == "positional" for one in signature.parameters)


def _displaced(wanted: FunctionParameter, place: int, written: FunctionSignature, *, taken: bool) -> list[str]:
    """What is wrong with a parameter that is declared at a place; `taken`: `**rest` takes every name that is not declared."""
    places = written.places
    there = places[place] if place < len(places) else None
    if wanted.kind == "positional":
        if there is None:
            return [] if written.takes("many") else [f"`{wanted.name}`, parameter {place + 1}, is missing"]
        if there.kind == "plain" and taken:
            return [f"`{there.name}` can be given by name, which `**` was to take"]
        return [f"`{there.name}` has no default"] if wanted.default and not there.default else []
    found = written.named(wanted.name)
    if found is None:
        return [f"the parameter `{wanted.name}` is missing"]
    if found.kind == "keyword":
        return [f"`{wanted.name}` can be given by name only"]
    told = []
    if found.kind == "positional":
        told.append(f"`{wanted.name}` can't be given by name")
    if there is not found:
        told.append(f"`{wanted.name}` is parameter {places.index(found) + 1}, not {place + 1}")
    if wanted.default and not found.default:
        told.append(f"`{wanted.name}` has no default")
    return told


def _unnamed(wanted: FunctionParameter, written: FunctionSignature, *, places: bool) -> list[str]:
    """What is wrong with a parameter that is declared to be given by name alone; `places`: `*args` takes all that has none."""
    found = written.named(wanted.name)
    if found is None:
        return [f"the parameter `{wanted.name}` is missing"]
    if found.kind == "positional":
        return [f"`{wanted.name}` can't be given by name"]
    if found.kind == "plain" and places:
        return [f"`{wanted.name}` takes what was meant for `*args`"]
    return [f"`{wanted.name}` has no default"] if wanted.default and not found.default else []


def unbindable(signature: FunctionSignature, call: ast.Call) -> str | None:
    """Why a call must raise TypeError; None where it may bind. What `*` and `**` bring is unknown, and is trusted."""
    given = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
    for name in given:
        found = signature.named(name)
        if (found is None or found.kind == "positional") and not signature.takes("rest"):
            return f"there is no parameter `{name}` that can be given by name"
    if any(isinstance(one, ast.Starred) for one in call.args) or len(given) < len(call.keywords):
        return None
    places = signature.places
    if len(call.args) > len(places) and not signature.takes("many"):
        return f"it takes {_counted(len(places))} by place, and {len(call.args)} are given"
    filled = {one.name for one in places[:len(call.args)]}
    for name in given:
        if name in filled and (found := signature.named(name)) and found.kind != "positional":
            return f"`{name}` is given twice, by place and by name"
    missing = [one.name for one in signature.required
               if one.name not in filled and (one.kind == "positional" or one.name not in given)]
    return f"it is not given {', '.join(f'`{name}`' for name in missing)}" if missing else None


def _counted(count: int) -> str:
    return {0: "no argument", 1: "one argument"}.get(count, f"{count} arguments")
