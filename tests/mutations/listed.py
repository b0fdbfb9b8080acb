"""The mutations of this folder: read from its YAML files, checked against the source, applied to a text.

A mutation takes one mechanism out of the package and names the tests that turn red without it. Its form stands in
CONTRIBUTING.md; `run.py` beside this file carries it out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEYS = {"name", "file", "replace", "by", "caught_by"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one file, and the tests that must fail with it. `file` is relative to the repository."""

    name: str
    file: str
    replace: str
    by: str
    caught_by: tuple[str, ...]
    listed_in: str

    def applied(self, text: str) -> str:
        """The text of `file` with the change. Raises ValueError where it does not apply, or gives a module that is no Python."""
        times = text.count(self.replace)
        if times != 1:
            raise ValueError(f"`replace` occurs {times} times in {self.file}, and must occur once")
        if self.by == self.replace:
            raise ValueError("`by` is equal to `replace`")
        changed = text.replace(self.replace, self.by)
        if not self.file.endswith(".py"):
            return changed
        try:
            if ast.dump(ast.parse(changed)) == _meaning(text):
                raise ValueError(f"{self.file} means the same with it: a comment or a layout is no mechanism")
        except SyntaxError as error:
            raise ValueError(f"{self.file} is no Python with it: line {error.lineno}: {error.msg}") from None
        return changed


@lru_cache(maxsize=64)
def _meaning(text: str) -> str:
    return ast.dump(ast.parse(text))


def read(folder: Path = HERE) -> list[Mutation]:
    """All mutations of a folder's YAML files, in the order of the files' names. Raises ValueError for what has another form."""
    return [mutation for path in sorted(folder.glob("*.yaml")) for mutation in _of_file(path)]


def _of_file(path: Path) -> Iterator[Mutation]:
    entries = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if not isinstance(entries, list):
        raise ValueError(f"{path.name} must be a list of mutations")
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or set(entry) != KEYS:
            raise ValueError(f"{path.name}, entry {number}: its keys must be {', '.join(sorted(KEYS))}")
        tests = entry["caught_by"]
        texts = [entry[key] for key in ("name", "file", "replace", "by")]
        if not all(isinstance(text, str) for text in texts) or not isinstance(tests, list) or not tests:
            raise ValueError(f"{path.name}, entry {number}: caught_by must be a list of test ids, all else text")
        yield Mutation(*texts, tuple(map(str, tests)), path.name)


@lru_cache(maxsize=64)
def fast_tests(root: Path, file: str) -> frozenset[str]:
    """The tests of a file that the default tier runs, by the names of their functions; none where there is no such file."""
    path = root / file
    if not path.is_file():
        return frozenset()
    module = ast.parse(path.read_text(encoding="utf-8"))
    marked = [ast.unparse(node.value) for node in module.body if isinstance(node, ast.Assign)
              and any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)]
    if any("mark.slow" in mark for mark in marked):
        return frozenset()
    return frozenset(node.name for node in ast.walk(module)
                     if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
                     and not any(ast.unparse(mark).startswith("pytest.mark.slow") for mark in node.decorator_list))


def is_fast(root: Path, test: str) -> bool:
    """Whether a test id names a test of the default tier; parameters are not looked at."""
    file, _, name = test.partition("::")
    return name.partition("[")[0] in fast_tests(root, file)
