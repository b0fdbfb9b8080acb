"""Python functions that a SOP names, found by reading their files: nothing is imported and nothing runs.

A module is looked for as a run does (`modules/finding.py`). What only running it could tell
(compiled modules, `import *`, decorators that may change a signature) is left unsaid rather than guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from metaflow_agents.modules import locate

FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function that is called by keyword."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    positional_only: tuple[str, ...] = ()
    """Those without a default: a call by keyword can't fill them."""
    takes_any: bool = False
    of_files: tuple[str, ...] = ()
    """Those of the type `RunFiles`, which a tool fills itself."""


@dataclass(frozen=True, slots=True)
class TargetModule:
    """What a module's text says about the names it defines. `whole` is False where more may exist at run time."""

    functions: dict[str, Signature | None] = field(default_factory=dict)
    """Name → its parameters; None where only running it could tell."""
    whole: bool = True


Reader = Callable[[], TargetModule]
"""Reads the file of one module."""


class NoModule(LookupError):
    """No file of that module in any of the folders; the message says where was looked."""


class BrokenModule(ValueError):
    """The module's file is no Python; the message says where."""


def read_module(name: str, folders: Sequence[Path]) -> TargetModule:
    """The names that a module defines. Raises NoModule, BrokenModule (its text does not parse), Shadowed."""
    found = locate(name, folders)
    if found is None:
        raise NoModule(name)
    return TargetModule(whole=False) if found.file is None or found.file.suffix != ".py" else read_file(found.file)


def read_file(file: Path) -> TargetModule:
    """The names that a Python file defines. Raises BrokenModule where its text does not parse."""
    stat = file.stat()
    return TargetModule(whole=False) if stat.st_size > _LARGEST else _parsed(file, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _parsed(file: Path, _changed: int) -> TargetModule:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise BrokenModule(f"{file.name}{f':{line}' if line else ''}: {getattr(error, 'msg', None) or error}") from None
    functions: dict[str, Signature | None] = {}
    whole = _collect(tree.body, functions)
    return TargetModule(functions, whole and "__getattr__" not in functions)


def _collect(body: Iterable[ast.stmt], found: dict[str, Signature | None]) -> bool:
    """Fills `found` with the module-level names of the statements; False where `import *` hides some."""
    whole = True
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found[node.name] = None if node.decorator_list else _signature(node.args)
            case ast.ClassDef():
                found[node.name] = None
            case ast.Import() | ast.ImportFrom():
                whole = whole and all(alias.name != "*" for alias in node.names)
                found.update({alias.asname or alias.name.partition(".")[0]: None for alias in node.names})
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                found.update(dict.fromkeys(name.id for name in ast.walk(node) if isinstance(name, ast.Name)
                                           and isinstance(name.ctx, ast.Store)))
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                for inner in ("body", "orelse", "finalbody"):
                    whole = _collect(getattr(node, inner, []), found) and whole
                for handler in getattr(node, "handlers", []):
                    whole = _collect(handler.body, found) and whole
            case _:
                continue
    return whole


def _signature(args: ast.arguments) -> Signature:
    positional = [*args.posonlyargs, *args.args]
    bare = len(positional) - len(args.defaults)
    required = [arg.arg for arg in positional[len(args.posonlyargs):bare]]
    optional = [arg.arg for arg in positional[max(bare, len(args.posonlyargs)):]]
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        (required if default is None else optional).append(arg.arg)
    return Signature(tuple(required), tuple(optional),
                     tuple(arg.arg for arg in args.posonlyargs[:max(bare, 0)]), args.kwarg is not None,
                     tuple(arg.arg for arg in (*positional, *args.kwonlyargs) if _is_files(arg.annotation)))


def _is_files(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'").rpartition(".")[2] == "RunFiles"
