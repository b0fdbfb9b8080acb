"""Tests that can't be trusted, told from their text: without an assertion, or by the clock, the network, the current folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

_ASKS = re.compile(r"_*(assert|expect|verify|must|fail|raises|warns|check(?!_output|_call))", re.IGNORECASE)
_CLOCKS = {("time", "time"), ("time", "sleep"), ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow"),
           ("date", "today")}
_ABROAD = re.compile(r"(?:https?|wss?|ftp)://(?!(?:127\.|localhost|\[::1\]|0\.0\.0\.0|[\w.-]*\.?(?:example|invalid|test|local)\b|testserver\b|"
                     r"example\.(?:com|org|net)\b))")
_CALLS_OUT = {"urlopen", "urlretrieve", "create_connection", "getaddrinfo"}
_CLIENTS = {"requests", "httpx", "aiohttp"}
_FOLDERS = ("examples/", "tests/", "src/", "./")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def weak_tests(tree: Mapping[str, str | bytes]) -> list[str]:
    """What of written tests turns red for no fault of the program, or never: path → text in; a sentence each, with the line. What
    lies in no folder `tests` is no test.
    """
    return [f"`{path}`, {why}" for path, text in tree.items()
            if path.endswith(".py") and "tests" in path.split("/")[:-1] and isinstance(text, str) for why in _weak(text)]


def _weak(text: str) -> Iterator[str]:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield f"line {getattr(error, 'lineno', 0) or 0}: it is no Python: {error}"
        return
    functions = [node for node in ast.walk(module) if isinstance(node, Function)]
    helpers = [one for one in functions if not one.name.startswith("test")]
    asserting = frozenset[str]()
    for _ in range(3):                                          # a helper may call one that asserts
        asserting |= {one.name for one in helpers if _asserts(one, asserting)}
    for one in functions:
        fixture = any("fixture" in ast.unparse(decorator) for decorator in one.decorator_list)
        if one.name.startswith("test") and not fixture and not _asserts(one, asserting):
            yield (f"line {one.lineno}: `{one.name}` asserts nothing that could fail; assert what has to come of it, worked out "
                   "by hand")
    for node in ast.walk(module):
        yield from _of_places(node)


def _asserts(function: Function, helpers: frozenset[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant) and not (
                isinstance(node.test, ast.Tuple) and node.test.elts):
            return True
        if isinstance(node, ast.Call) and ((name := _name(node.func)) in helpers or _ASKS.match(name)):
            return True
    return False


def _of_places(node: ast.AST) -> Iterator[str]:
    """What a call says of the clock, the network and the current folder."""
    if not isinstance(node, ast.Call):
        return
    name = _name(node.func)
    told = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if isinstance(node.func, ast.Attribute) and (_name(node.func.value), name) in _CLOCKS:
        yield (f"line {node.lineno}: `{_name(node.func.value)}.{name}` goes by the clock, so it is green today and red another "
               "day; give the program a time of yours")
    asks = name in _CALLS_OUT or (isinstance(node.func, ast.Attribute) and _name(node.func.value) in _CLIENTS)
    if asks and any(_ABROAD.match(one) for one in told):
        yield f"line {node.lineno}: `{name}` asks another host; there is no network where tests run; answer it in the test"
    if name in ("open", "Path", "read_text", "exists") and any(one.startswith(_FOLDERS) for one in told):
        yield (f"line {node.lineno}: `{told[0]}` is looked for in the current folder; name it from "
               "`Path(__file__).resolve().parents[1]`")


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
