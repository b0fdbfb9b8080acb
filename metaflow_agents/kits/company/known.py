"""Tests that stay red when all rounds are over, marked as known: who gets the product sees what is open, and nothing else red."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 200                         # characters of a reason


def marked_known(tests: Mapping[str, str], red: Sequence[str], wrong: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The tests, those whose ids stand in `red` (`tests/test_a.py::test_it[1]`) marked with the reason: as `xfail` for pytest, as
    `todo` for node. `wrong`: what is wrong with the program, each with the `test` that shows it. A test that is not found by its
    name stays as it is.
    """
    whys = {_whole(one["test"]): one["what"] for one in wrong}
    files = dict(tests)
    for test in dict.fromkeys(map(_whole, red)):
        path, _, name = test.partition("::")
        why = " ".join(whys.get(test, "its own judge calls this test wrong").split())[:_MOST]
        if path in files:
            files[path] = _in_python(files[path], name, why) if path.endswith(".py") else _in_script(files[path], name, why)
    return files


def _whole(test: str) -> str:
    """A test of pytest without the parameters of a case."""
    return test.partition("[")[0] if ".py::" in test else test


def _in_python(text: str, name: str, why: str) -> str:
    try:
        scope: Any = ast.parse(text)
        for part in name.split("::"):
            scope = next(node for node in scope.body if getattr(node, "name", None) == part)
    except (SyntaxError, ValueError, StopIteration, AttributeError, RecursionError, MemoryError):
        return text
    lines = text.split("\n")                # as Python counts them; `splitlines` ends lines at form feeds, too
    first = min([scope.lineno, *(one.lineno for one in scope.decorator_list)]) - 1
    indent = lines[first][:len(lines[first]) - len(lines[first].lstrip())]
    lines.insert(first, f"{indent}@pytest.mark.xfail(reason={json.dumps(why, ensure_ascii=False)})")
    made = "\n".join(lines)
    return made if re.search(r"^import pytest$", text, re.MULTILINE) else _importing(made)


def _importing(text: str) -> str:
    """The text with `import pytest` behind its docstring and what is imported from the future."""
    last = 0
    for node in ast.parse(text).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")):
            break
        last = node.end_lineno or node.lineno
    lines = text.split("\n")
    return "\n".join([*lines[:last], "import pytest", *lines[last:]])


def _in_script(text: str, name: str, why: str) -> str:
    spelt = "|".join(re.escape(sign + name.replace(sign, "\\" + sign) + sign) for sign in "\"'`")
    told = json.dumps(why, ensure_ascii=False)
    return re.sub(rf"(\b(?:test|it)\(\s*(?:{spelt}),)", lambda found: f"{found[1]} {{ todo: {told} }},", text, count=1)
