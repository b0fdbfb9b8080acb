"""A company's staff for one small product, which knows its parts by heart: for runs whose subject is not the product.

It sees the messages alone, as an endpoint does, and answers in text. `bug`: the engineer's first version of the rules is wrong,
and the version that mends them is right.
"""

from __future__ import annotations

import json
import re
from typing import Any

IDEA = "a command that adds numbers"
PACKAGE = "adder"
RULES, MAIN = f"{PACKAGE}/rules.py", f"{PACKAGE}/__main__.py"

PRD: dict[str, Any] = {
    "title": "Adder", "summary": "A command that adds the numbers that it is given.", "goals": ["a sum without a spreadsheet"],
    "stories": [{"as": "clerk", "want": "the sum of some numbers", "so_that": "I need not add them by hand"}],
    "requirements": [{"id": "R1", "text": "`adder 1 2` prints 3", "priority": "must"},
                     {"id": "R2", "text": "without numbers it prints 0", "priority": "must"},
                     {"id": "R3", "text": "what is no number ends with exit status 2", "priority": "must"}],
    "unclear": [],
}
FILES = {
    f"{PACKAGE}/__init__.py": '"""Adds numbers."""\n',
    RULES: '''"""The rules."""


def total(numbers: list[str]) -> int:
    """The sum; ValueError for what is no number."""
    return sum(int(number) for number in numbers)
''',
    MAIN: '''"""The command."""

import sys

from adder.rules import total


def main(arguments: list[str] | None = None) -> int:
    """Prints the sum."""
    try:
        print(total(sys.argv[1:] if arguments is None else arguments))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
''',
}
WRONG = FILES[RULES].replace("sum(int(number) for number in numbers)", "sum(int(number) for number in numbers) + 1")
DESIGN: dict[str, Any] = {
    "package": PACKAGE, "approach": "The sum stands apart from the command.", "data": [], "dependencies": [],
    "files": [
        {"path": f"{PACKAGE}/__init__.py", "purpose": "marks the package", "uses": [], "covers": [], "interface": []},
        {"path": RULES, "purpose": "the sum", "uses": [], "covers": ["R1", "R2"], "interface": [
            {"signature": "def total(numbers: list[str]) -> int", "does": "the sum", "raises": ["ValueError: not a number"]}]},
        {"path": MAIN, "purpose": "the command", "uses": [RULES], "covers": ["R3"], "interface": [
            {"signature": "def main(arguments: list[str] | None = None) -> int",
             "does": "prints the sum, gives the exit status"}]}],
    "scripts": [{"name": "adder", "target": "adder.__main__:main", "commands": [
        {"usage": "adder [NUMBER …]", "does": "prints the sum, exit 0; what is no number: a line on stderr, exit 2"}]}],
    "flows": [{"name": "numbers are added", "steps": [
        {"from": "user", "to": MAIN, "call": "adder 1 2"}, {"from": MAIN, "to": RULES, "call": "total(numbers)", "returns": "3"},
        {"from": MAIN, "to": "user", "call": "the sum"}]}],
}
TESTS = {"tests/test_adder.py": '''import subprocess
import sys

import pytest

from adder.rules import total


def test_sum() -> None:
    """R1: the sum."""
    assert total(["1", "2"]) == 3


def test_nothing() -> None:
    """R2: nothing is nought."""
    assert total([]) == 0


def test_no_number() -> None:
    """R3: what is no number."""
    with pytest.raises(ValueError):
        total(["x"])


def test_command() -> None:
    """R3: from end to end."""
    done = subprocess.run([sys.executable, "-m", "adder", "x"], capture_output=True)
    assert done.returncode == 2
'''}
PACKAGING = {"pyproject.toml": f'''[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{PACKAGE}"
version = "0.1.0"
description = "Adds numbers"
requires-python = ">=3.11"

[project.scripts]
adder = "adder.__main__:main"

[tool.setuptools]
packages = ["{PACKAGE}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
''', "README.md": "# Adder\n\n    python -m adder 1 2\n"}


class Staff:
    """Answers prompts."""

    def __init__(self, *, bug: bool = False) -> None:
        self._bug = bug

    def answer(self, said: str) -> str:
        """The answer to a conversation, given as one text."""
        artifact = re.findall(r"Your answer becomes (?:the entry `[^`]*` of )?`(\w+)`", said)[-1]
        answer: str = getattr(self, f"_{artifact}")(said)
        return answer

    def _prd(self, _: str) -> str:
        return json.dumps(PRD)

    def _design(self, _: str) -> str:
        return json.dumps(DESIGN)

    def _source(self, said: str) -> str:
        path = re.findall(r"You work on this one only: `([^`]+)`", said)[-1]
        first = f"Mend `{path}`" not in said
        return blocks({path: WRONG if self._bug and first and path == RULES else FILES[path]})

    def _tests(self, _: str) -> str:
        return blocks(TESTS)

    def _packaging(self, _: str) -> str:
        return blocks(PACKAGING)

    def _faults(self, said: str) -> str:
        failed = re.findall(r"<failure test=\"([^\"]+)\">", said)
        return json.dumps({"code": [{"path": RULES, "why": f"{', '.join(failed)}: one too many"}], "tests": [], "packaging": []})

    def _qa_report(self, _: str) -> str:
        return "# Adder\n\nThe tests pass.\n"


def blocks(files: dict[str, str]) -> str:
    """Files as a role answers with them."""
    return "\n".join(f"=== file: {path} ===\n{text.rstrip()}\n=== end ===" for path, text in files.items())
