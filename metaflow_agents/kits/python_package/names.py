"""Which names the statements of a module, a class or a function bind, and to what."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Bound = Literal["function", "class", "import", "from", "value", "note", "parameter"]
"""`note` is an annotation without a value: it binds nothing at run time, but says of which type a name is."""

_BROAD = frozenset({"", "Exception", "BaseException"})     # "": a bare `except:`, or a type that is worked out
_IMPORT_FAULTS = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", *_BROAD})
_NAME_FAULTS = frozenset({"NameError", *_BROAD})
_CLOSED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One statement that binds one name.

    `value` is what is assigned, where that is plain to see; `annotation` its type as it is written. `source` and `target` are for
    imports: the module's dotted name with its leading dots, and the name taken from it. `typing`: it is bound for type checkers
    alone. `guarded`: an `except` catches what the import raises. `maybe`: a condition decides.
    """

    name: str
    kind: Bound
    line: int
    node: ast.AST
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    source: str = ""
    target: str = ""
    typing: bool = False
    guarded: bool = False
    maybe: bool = False


@dataclass(frozen=True, slots=True)
class _State:
    typing: bool = False
    guarded: bool = False
    maybe: bool = False


def bindings(body: Iterable[ast.stmt]) -> list[Binding]:
    """All bindings of a body in their order, those of nested functions and classes left out."""
    return [found for statement in body for found in _of_statement(statement, _State())]


def parameters(node: Function | ast.Lambda) -> list[Binding]:
    """The parameters of a function as bindings of its body."""
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    found = [Binding(arg.arg, "parameter", node.lineno, arg, annotation=arg.annotation) for arg in every]
    found += [Binding(arg.arg, "parameter", node.lineno, arg) for arg in (args.vararg, args.kwarg) if arg]
    return found


def is_typing_test(test: ast.expr) -> bool:
    """Whether it is `TYPE_CHECKING`, by whatever way it is reached."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING")


def asks_machine(test: ast.expr) -> bool:
    """Whether a condition asks which Python or which system it runs on: what holds there may not hold here."""
    return any(isinstance(one, ast.Attribute) and one.attr in ("version_info", "platform", "name", "implementation", "hexversion")
               and last_name(one.value) in ("sys", "os", "implementation") for one in ast.walk(test))


def catches_import(node: ast.stmt) -> bool:
    """Whether a `try` outlives an import that fails."""
    return isinstance(node, ast.Try | ast.TryStar) and _catches(node, _IMPORT_FAULTS)


def catches_names(node: ast.stmt) -> bool:
    """Whether a `try` expects a name that is not there: whoever keeps any fault (`except Exception as error`) does not."""
    return isinstance(node, ast.Try | ast.TryStar) and _catches(node, _NAME_FAULTS, kept=False)


def _catches(node: ast.Try | ast.TryStar, wanted: frozenset[str], *, kept: bool = True) -> bool:
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        found = wanted & {last_name(kind) for kind in kinds}
        if found - _BROAD or (found and (kept or not handler.name) and not _raises_again(handler.body)):
            return True
    return False


def _raises_again(body: Iterable[ast.AST]) -> bool:
    """Whether a bare `raise` stands in a handler: one that tidies up, or picks out some faults, and lets the others go on."""
    return any((isinstance(node, ast.Raise) and node.exc is None)
               or (not isinstance(node, _CLOSED) and _raises_again(ast.iter_child_nodes(node))) for node in body)


def last_name(node: ast.expr | None) -> str:
    """`c` of `a.b.c`, of `c` and of `c(…)` and `c[…]`; empty for all else."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _of_statement(node: ast.stmt, state: _State) -> Iterator[Binding]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield _bound(node.name, "function", node, state)
        case ast.ClassDef():
            yield _bound(node.name, "class", node, state)
        case ast.Import() | ast.ImportFrom():
            yield from _of_import(node, state)
        case ast.If():
            yield from _of_if(node, state)
        case ast.Try() | ast.TryStar():
            yield from _of_try(node, state)
        case ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith() | ast.Match():
            yield from _of_block(node, state)
        case ast.Assign():
            yield from _of_assign(node, state)
        case ast.AnnAssign() if isinstance(node.target, ast.Name):
            kind: Bound = "note" if node.value is None else "value"
            yield replace(_bound(node.target.id, kind, node, state), value=node.value, annotation=node.annotation)
            yield from _of_expressions(node.value, state)
        case _ if type(node).__name__ == "TypeAlias":                # `type X = …` of Python 3.12
            yield _bound(node.name.id, "value", node, state)         # type: ignore[attr-defined]
        case _:
            yield from _of_expressions(node, state)


def _bound(name: str, kind: Bound, node: ast.AST, state: _State) -> Binding:
    line = getattr(node, "lineno", 0)
    return Binding(name, kind, line, node, typing=state.typing, guarded=state.guarded, maybe=state.maybe)


def _of_import(node: ast.Import | ast.ImportFrom, state: _State) -> Iterator[Binding]:
    for alias in node.names:
        if isinstance(node, ast.Import):
            name = alias.asname or alias.name.partition(".")[0]
            yield replace(_bound(name, "import", node, state), source=alias.name, target="" if alias.asname else name)
        else:
            source = "." * node.level + (node.module or "")
            yield replace(_bound(alias.asname or alias.name, "from", node, state), source=source, target=alias.name)


def _of_if(node: ast.If, state: _State) -> Iterator[Binding]:
    yield from _of_expressions(node.test, state)
    inverted = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) and is_typing_test(node.test.operand)
    within, without = replace(state, maybe=True), replace(state, maybe=True)
    if is_typing_test(node.test):
        within, without = replace(state, typing=True), state
    elif inverted:
        within, without = state, replace(state, typing=True)
    for body, inner in ((node.body, within), (node.orelse, without)):
        for statement in body:
            yield from _of_statement(statement, inner)


def _of_try(node: ast.Try | ast.TryStar, state: _State) -> Iterator[Binding]:
    inner = replace(state, guarded=state.guarded or catches_import(node), maybe=True)
    for statement in (*node.body, *node.orelse):
        yield from _of_statement(statement, inner)
    for handler in node.handlers:
        if handler.name:
            yield _bound(handler.name, "value", handler, replace(state, maybe=True))
        for statement in handler.body:
            yield from _of_statement(statement, replace(state, maybe=True))
    for statement in node.finalbody:
        yield from _of_statement(statement, state)


def _of_block(node: ast.stmt, state: _State) -> Iterator[Binding]:
    """A loop, a `with` or a `match`: what it binds itself, then its statements."""
    inner = state if isinstance(node, ast.With | ast.AsyncWith) else replace(state, maybe=True)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _of_statement(child, inner)
        elif isinstance(child, ast.match_case):
            yield from _of_expressions(child.pattern, inner)
            yield from _of_expressions(child.guard, inner)
            for statement in child.body:
                yield from _of_statement(statement, inner)
        else:
            yield from _of_expressions(child, inner)


def _of_assign(node: ast.Assign, state: _State) -> Iterator[Binding]:
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield replace(_bound(target.id, "value", node, state), value=node.value)
        else:
            yield from _of_expressions(target, state)
    yield from _of_expressions(node.value, state)


def _of_expressions(node: ast.AST | None, state: _State, *, inside: bool = False) -> Iterator[Binding]:
    """Names stored somewhere within, as targets, patterns and `:=` do; a comprehension keeps its own targets."""
    if node is None or (isinstance(node, _CLOSED) and not inside):
        return
    match node:
        case ast.Name(ctx=ast.Store()):
            yield _bound(node.id, "value", node, state)
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
            yield _bound(name, "value", node, state)
        case ast.Delete():
            return
    if isinstance(node, _COMPREHENSIONS):
        yield from (
            _bound(inner.target.id, "value", inner, state) for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)
        )
        return
    for child in ast.iter_child_nodes(node):
        yield from _of_expressions(child, state)


def comprehended(node: ast.AST) -> list[Binding]:
    """What the `for` clauses of a comprehension bind inside of it."""
    return [found for clause in getattr(node, "generators", []) for found in _of_expressions(clause.target, _State())]


def declared_global(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that a function's body says are the module's or an outer function's (`global`, `nonlocal`)."""
    ends: list[ast.AST] = list(body)
    while ends:
        node = ends.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif not isinstance(node, _CLOSED):
            ends.extend(
                child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
            )
