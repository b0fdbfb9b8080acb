# ruff: noqa: E501
"""Defects planted in programs that have tests: one operator, comparison or number is changed, and the tests that fail because of it are kept apart.

A planted defect has the program with it, the tests that still pass (which the repository holds), one test that fails (which the issue
shows as what a user did), and all tests (which nobody sees before the end).
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SWAPS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
          ast.Eq: "!=", ast.NotEq: "==", ast.And: "or", ast.Or: "and", ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
          ast.Eq: "==", ast.NotEq: "!=", ast.And: "and", ast.Or: "or", ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"}
_MOST = 16                          # mutants of a program that are tried

_TRIED = r'''
import contextlib, importlib, io, json, re, signal, sys, types, unittest
name, test_name, sources = json.load(sys.stdin)
sys.path.insert(0, ".")
def stop(*_): raise KeyboardInterrupt("takes too long")       # the only one that unittest lets through
signal.signal(signal.SIGPROF, stop)
found = []
for source in sources:
    for gone in (name, test_name): sys.modules.pop(gone, None)
    failed, told = [], {}
    signal.setitimer(signal.ITIMER_PROF, 0.7)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            module = types.ModuleType(name); exec(compile(source, name + ".py", "exec"), module.__dict__); sys.modules[name] = module
            result = unittest.TestResult()
            unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(test_name)).run(result)
        for test, text in result.failures + result.errors:
            failed.append(test.id().rpartition(".")[2] if hasattr(test, "id") else "?"); told[failed[-1]] = next((line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)), "an error")[:300]
        found.append({"ran": result.testsRun, "failed": sorted(set(name.split(" ")[0] for name in failed)), "told": told})
    except BaseException as error:
        found.append({"ran": 0, "failed": [], "told": {}})
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
json.dump(found, sys.stdout)
'''


@dataclass(frozen=True)
class Planted:
    """A defect: file names and texts as the module says."""

    name: str
    program: str
    tests: str
    broken: str
    example: str
    visible: str
    shown: str
    hidden: str
    symptom: str

    @property
    def issue(self) -> str:
        """What a user would report: what was done, and what came of it."""
        return (f"Wrong result from `{Path(self.program).stem}`\n\nThis used to work and does not any more. What I do:\n\n```python\n{self.shown}\n```\n\n"
                f"What comes of it: {self.symptom}\n")


def planted(folder: Path) -> Planted:
    """The first defect of a task of Aider's polyglot benchmark that fails the fewest tests, one at least, and leaves one that passes.

    Raises ValueError where the task has none.
    """
    test = next(folder.glob("*_test.py"))
    program = test.name.replace("_test.py", ".py")
    example = (folder / "meta/example.py").read_text(encoding="utf-8")
    hidden = test.read_text(encoding="utf-8")
    mutants = list(dict.fromkeys(mutated(example)))[:_MOST]
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / test.name).write_text(hidden, encoding="utf-8")
        done = subprocess.run([sys.executable, "-c", _TRIED], cwd=scratch, text=True, capture_output=True, check=True,
                              input=json.dumps([Path(program).stem, test.stem, mutants]))
    tried = [(len(one["failed"]), place) for place, one in enumerate(json.loads(done.stdout))
             if 0 < len(one["failed"]) < one["ran"] and "?" not in one["failed"]]
    if not tried:
        raise ValueError(f"{folder.name}: no mutant of the example fails a test and passes another")
    _, place = min(tried)
    one = json.loads(done.stdout)[place]
    first = one["failed"][0]
    symptom = one["told"].get(first) or next(iter(one["told"].values()))
    return Planted(folder.name, program, test.name, mutants[place], example, without(hidden, set(one["failed"])),
                   without(hidden, {name for name in methods(hidden)} - {first}), hidden, symptom)


def mutated(source: str) -> Iterator[str]:
    """Programs that differ from one in one place."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()

    def between(one: ast.expr, other: ast.expr) -> tuple[int, int]:
        return (starts[one.end_lineno - 1] + one.end_col_offset,            # type: ignore[operator]
                starts[other.lineno - 1] + other.col_offset)

    for node in ast.walk(ast.parse(source)):
        places: list[tuple[ast.AST, tuple[int, int]]] = []
        if isinstance(node, ast.BinOp):
            places.append((node.op, between(node.left, node.right)))
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            places += [(op, between(operands[at], operands[at + 1])) for at, op in enumerate(node.ops)]
        elif isinstance(node, ast.BoolOp):
            places.append((node.op, between(node.values[0], node.values[1])))
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            start, end = (starts[node.lineno - 1] + node.col_offset,
                          starts[node.end_lineno - 1] + node.end_col_offset)        # type: ignore[operator]
            yield (data[:start] + str(node.value + 1).encode() + data[end:]).decode()
        for op, (start, end) in places:
            sign, instead = _SIGNS.get(type(op)), _SWAPS.get(type(op))
            text = data[start:end].decode()
            if sign and instead and text.count(sign) == 1:
                yield (data[:start] + text.replace(sign, instead).encode() + data[end:]).decode()


def methods(source: str) -> list[str]:
    """The names of the tests of a module."""
    return [part.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef) for part in node.body
            if isinstance(part, ast.FunctionDef) and part.name.startswith("test")]


def without(source: str, names: set[str]) -> str:
    """A module of tests without some of them."""
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name in names:
                    first = min([part.lineno, *(each.lineno for each in part.decorator_list)])
                    for at in range(first - 1, part.end_lineno or part.lineno):
                        lines[at] = ""
            if all(isinstance(part, ast.FunctionDef) and part.name in names for part in node.body):
                lines[node.lineno - 1] = ""
    return "".join(lines)
