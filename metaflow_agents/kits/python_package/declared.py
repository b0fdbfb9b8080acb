"""Interfaces as a design declares them: Python signatures as text, read into what can be compared with code."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from metaflow_agents.kits.python_package.names import Binding, Function, bindings

_HEAD = re.compile(r"\s*(?:@|(?:async\s+)?def\b|class\b)")
_KEYWORD = re.compile(r"(?<!async)(?<!\s)\s++(?=@|(?:async\s+)?def\s|class\s)")
_BARE_CALL = re.compile(r"\s*[A-Za-z_]\w*\s*\(")
_FORMS = "write `def name(parameter: type) -> type`, `class Name(Base)` or `NAME: type = value`, in Python's own form"


class BadSignature(ValueError):
    """A signature that is no Python; the message says what stands there and how to write it."""


@dataclass(frozen=True, eq=False)
class Declared:
    """One entry of an interface. `written` is its text, `place` where it stands in the design (`files[2].interface[0]`).

    `bindings` are what it binds: one for a function, a class or a constant; several for `from .rules import a, b`.
    """

    written: str
    place: str
    bindings: tuple[Binding, ...]
    members: tuple[Declared, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names that the entry promises."""
        return [one.name for one in self.bindings]

    @property
    def binding(self) -> Binding:
        """What it binds, where it is one thing."""
        return self.bindings[0]


@lru_cache(maxsize=4096)
def parsed(text: str) -> ast.stmt:
    """The statement that a signature is, not to be changed. A body and the colon may be left out. Raises BadSignature."""
    text = text.strip()
    if not text:
        raise BadSignature(f"the signature is empty; {_FORMS}")
    if _HEAD.match(text):
        text = _decorators_on_lines(text)
        attempts = [f"{text}: ...", text, f"{text} ..."]                # the form that a design has comes first
    else:
        attempts = [text]
    for attempt in attempts:
        tree = _tree(attempt)
        if tree is not None and len(tree.body) == 1:
            return _accepted(text, tree.body[0])
    if not _HEAD.match(text) and _BARE_CALL.match(text) and _tree(f"def {text}: ...") is not None:
        raise BadSignature(f"`{text}` has no keyword before the name: write `def {text}`")
    raise BadSignature(f"`{text}` is no Python; {_FORMS}")


def _decorators_on_lines(text: str) -> str:
    """`@dataclass(frozen=True) class Expense`, in one line, is what people write and what Python refuses."""
    if text.startswith("@") and "\n" not in text:
        return _KEYWORD.sub("\n", text)
    return text


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _accepted(text: str, node: ast.stmt) -> ast.stmt:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ImportFrom):
        return node
    if isinstance(node, ast.Assign | ast.AnnAssign) and all(isinstance(one, ast.Name) for one in _targets(node)):
        return node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name):
        bare = ast.Assign([ast.Name(node.value.id, ast.Store())], ast.Constant(...))
        return ast.fix_missing_locations(ast.copy_location(bare, node))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
        raise BadSignature(f"`{text}` is a call: write `def {text}`, or `class Name(Base)`")
    raise BadSignature(f"`{text}` declares nothing; {_FORMS}")


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def declared(entry: Mapping[str, Any], place: str) -> Declared:
    """An entry `{signature, members?}` of a design. Raises BadSignature."""
    node = parsed(entry["signature"])
    members = [declared(member, f"{place}.members[{index}]") for index, member in enumerate(entry.get("members", ()))]
    if isinstance(node, ast.ClassDef):
        # A class may be written with its whole body: what stands there is promised just as well.
        members = [*(_of_body(one, place) for one in node.body if not _is_filler(one)), *members]
    return Declared(entry["signature"].strip(), place, tuple(bindings([node])), tuple(members))


def _of_body(node: ast.stmt, place: str) -> Declared:
    found = tuple(bindings([node]))
    if not found:
        raise BadSignature(f"`{ast.unparse(node)}` in a class declares nothing; {_FORMS}")
    return Declared(headline(node), place, found)


def _is_filler(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def headline(node: ast.stmt) -> str:
    """A definition without its body, as a design writes it: decorators first, each on its line."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.unparse(node)
    decorators = "".join(f"@{ast.unparse(one)}\n" for one in node.decorator_list)
    if isinstance(node, ast.ClassDef):
        inside = [
            *map(ast.unparse, node.bases),
            *(f"{one.arg}={ast.unparse(one.value)}" if one.arg else f"**{ast.unparse(one.value)}" for one in node.keywords),
        ]
        return f"{decorators}class {node.name}" + (f"({', '.join(inside)})" if inside else "")
    return decorators + function_head(node)


def function_head(node: Function) -> str:
    """`def name(parameters) -> type`."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{word} {node.name}({ast.unparse(node.args)}){returns}"


def interfaces(design: Mapping[str, Any]) -> dict[str, list[Declared]]:
    """Path → the entries of its interface that can be read. What can't is for `design_faults` to tell."""
    found: dict[str, list[Declared]] = {}
    for number, file in enumerate(design["files"]):
        if not file["path"].endswith(".py"):
            continue                             # in another language: nothing that can be read here
        entries = found.setdefault(file["path"], [])
        for index, entry in enumerate(file["interface"]):
            try:
                entries.append(declared(entry, f"files[{number}].interface[{index}]"))
            except BadSignature:
                continue
    return found
