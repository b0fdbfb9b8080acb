"""Small changes of a program, each of which its tests should notice: what the tests are worth.

After DeMillo, Lipton and Sayward, "Hints on test data selection" (1978), with the operators that Offutt et al., "An experimental
determination of sufficient mutant operators" (1996) found to be enough: relations, arithmetic, logic and constants; besides
these a call, a return or a raise that is left out, as programs lack one more often than they have a wrong sign.

Python is changed here; scripts of a page are parsed by a grammar in C, in a worker (decision 49).
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.errors import ForeignRefused
from metaflow_agents.workers.pool import parsed

MOST = 40
_RELATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
_LOGIC: dict[type[ast.boolop], type[ast.boolop]] = {ast.And: ast.Or, ast.Or: ast.And}
_NO_RULE = ("log", "logger", "logging", "warnings")
"""Calls of these say something beside the program's work: that one is missing is no fault that a test has to find."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the bytes from `start` to `end` of the file `path`, which hold `was`, become `now`. `line` counts from 1."""

    path: str
    line: int
    start: int
    end: int
    was: str
    now: str
    within: str

    def reads(self, text: str) -> bool:
        """Whether the file, which is `text`, is still Python with it; scripts are changed so that they stay scripts."""
        if not self.path.endswith(".py"):
            return True
        data = text.encode()
        try:
            ast.parse(data[:self.start] + self.now.encode() + data[self.end:])
        except (SyntaxError, ValueError):
            return False
        return True

    def told(self) -> dict[str, Any]:
        """As JSON. Its `id` says which it is among those of a program."""
        return {"id": f"{self.path}:{self.line}:{self.start}-{self.end}", "path": self.path, "line": self.line,
                "start": self.start, "end": self.end, "was": self.was, "now": self.now, "within": self.within}


async def mutants(tree: Mapping[str, str | bytes], most: int = MOST) -> list[dict[str, Any]]:
    """Changes of the program below `src/`, or of all that is no test where there is no `src/`: at most `most`, spread over its
    functions, the same ones each time. Files that are neither Python nor a script that runs without a browser have none.

    A kind of change is taken in turn with the others, and a function has its second one when all have their first.
    """
    files = {path: text for path, text in tree.items() if path.endswith((".py", ".js")) and isinstance(text, str)}
    below = {path: text for path, text in files.items() if path.startswith("src/") and path.endswith(".py")} or {
        path: text for path, text in files.items() if not path.startswith(("tests/", "test_", "docs/", "examples/", "setup.py"))}
    places: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for path, text in sorted(below.items()):
        for one in _of_file(path, text) if path.endswith(".py") else await _of_script(path, text):
            places[path, one.within].append(one)
    queues = [sorted(found, key=_chance) for _, found in sorted(places.items(), key=lambda item: _chance(item[1][0]))]
    taken: list[Mutant] = []
    while queues and len(taken) < most:
        for one in [queue.pop() for queue in queues]:
            if len(taken) < most and one.reads(below[one.path]):
                taken.append(one)
        queues = [queue for queue in queues if queue]
    return [one.told() for one in sorted(taken, key=lambda one: (one.path, one.start))]


def _chance(one: Mutant) -> bytes:
    """An order that has nothing to do with the place, and is the same each time."""
    return hashlib.sha256(f"{one.path}:{one.was}:{one.now}:{one.start}".encode()).digest()


async def _of_script(path: str, text: str) -> list[Mutant]:
    data = text.encode()
    try:
        found = await parsed("script", data)
    except ForeignRefused:                              # too much for the parser, and so for its tests
        return []
    return [Mutant(path, line, start, end, data[start:end].decode(), now, within) for line, start, end, now, within in found]


def _of_file(path: str, text: str) -> Iterator[Mutant]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    data = text.encode()
    begins = [0]
    for line in data.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for node, now, within in _changes(tree, ""):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        was = data[start:end].decode()
        if was != now:
            yield Mutant(path, node.lineno, start, end, was, now, within)


def _changes(node: ast.AST, within: str) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """What stands in a node, what could stand there instead, and the name of the function around."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _is_for_the_start(child.test):
            continue
        if isinstance(child, ast.arguments) or (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                                                and child in node.decorator_list):
            continue                                    # annotations, defaults and decorators: seldom seen by a test
        inner = f"{within}.{child.name}".lstrip(".") if isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else within
        if isinstance(child, ast.expr | ast.stmt) and (now := _instead(child)):
            yield child, now, inner
        if not isinstance(child, ast.JoinedStr):        # the places of what stands in them are not told by every Python
            yield from _changes(child, inner)


def _is_for_the_start(test: ast.expr) -> bool:
    told = ast.unparse(test)
    return "__name__" in told or "TYPE_CHECKING" in told


def _instead(node: ast.expr | ast.stmt) -> str:
    """What could stand there instead; empty where nothing could."""
    match node:
        case ast.Compare(ops=[op, *rest]) if type(op) in _RELATIONS:
            return _told(ast.Compare(node.left, [_RELATIONS[type(op)](), *rest], node.comparators))
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC and not _is_text(node.left) and not _is_text(node.right):
            return _told(ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right))
        case ast.BoolOp(op=op):
            return _told(ast.BoolOp(_LOGIC[type(op)](), node.values))
        case ast.UnaryOp(op=ast.Not()):
            return _told(node.operand)
        case ast.Constant(value=bool() as value):
            return str(not value)
        case ast.Constant(value=int() as value) if abs(value) < 10_000:
            return str(value + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            return "return None"
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()) if not _is_beside(node):
            return "pass"
        case _:
            return ""


def _told(node: ast.expr) -> str:
    """In brackets, so that it means the same wherever it stands, also over several lines."""
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_beside(node: ast.stmt) -> bool:
    """Whether a call only tells something to who looks on."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    names = [one.id for one in ast.walk(node.value.func) if isinstance(one, ast.Name)]
    return any(name in _NO_RULE for name in names)
