"""A company's staff for the problems of HumanEval, which sees nothing but its prompts.

The engineer first writes a planted bug, and gives the canonical solution only where the assertion that failed stands in
the prompt. Everything else follows from the problem's text, which goes from hand to hand in the artifacts.

Source of the problems: Chen et al., "Evaluating Large Language Models Trained on Code" (2021), openai/human-eval, MIT.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.models.port import ModelRequest

PACKAGE = "solved"
EMPTY, MODULE = f"{PACKAGE}/__init__.py", f"{PACKAGE}/answer.py"
_FAILURE = re.compile(r"<failure test=.*?</failure>", re.DOTALL)
_BUGS = ("-987654321", "(-987654321,)", "[-987654321]")


@dataclass(frozen=True)
class Problem:
    """One row of the data set."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str

    @property
    def signature(self) -> str:
        """`def name(…) -> …:` as the problem's text has it."""
        function = next(node for node in ast.parse(f"{self.prompt}    pass\n").body
                        if isinstance(node, ast.FunctionDef) and node.name == self.entry_point)
        function.body = [ast.Pass()]
        function.decorator_list = []
        return ast.unparse(function).splitlines()[0].removesuffix(":")

    @property
    def bug(self) -> str:
        """The first planted value that the problem's own tests tell by an assertion."""
        return next(value for value in _BUGS if self._asserts(value))

    def with_body(self, body: str) -> str:
        """The whole file."""
        return f"{self.prompt}{body}"

    def _asserts(self, value: str) -> bool:
        names: dict[str, Any] = {}
        exec(f"{self.with_body(f'    return {value}')}\n{self.test}", names)        # the data set's own code, in a test
        try:
            names["check"](names[self.entry_point])
        except AssertionError:
            return True
        except Exception:
            return False
        return False


def problems(folder: Path) -> list[Problem]:
    """The problems in the order of the file."""
    lines = (folder / "human_eval" / "problems.jsonl").read_text(encoding="utf-8").splitlines()
    return [Problem(**json.loads(line)) for line in lines]


class Staff:
    """Answers for every role, for whichever of the problems the prompt is about."""

    def __init__(self, known: Iterable[Problem]) -> None:
        # The longest first: one problem's text may stand in another's.
        self._known = sorted(known, key=lambda problem: len(problem.prompt), reverse=True)
        self.asked = 0

    def answer(self, request: ModelRequest) -> Any:
        """The answer to one prompt."""
        self.asked += 1
        said = "\n".join(message["content"] for message in request.messages)
        problem = next(problem for problem in self._known if _in(problem, said))
        return getattr(self, f"_{request.step}")(problem, said)

    def _write_prd(self, problem: Problem, _: str) -> dict[str, Any]:
        return {"title": problem.entry_point, "summary": "One function.", "goals": ["the function does what it says"],
                "stories": [{"as": "programmer", "want": "to call it", "so_that": "I have its result"}],
                "requirements": [{"id": "R1", "text": problem.prompt, "priority": "must"}], "unclear": []}

    def _design_system(self, problem: Problem, _: str) -> dict[str, Any]:
        function = {"signature": problem.signature, "does": problem.prompt}
        return {"package": PACKAGE, "approach": "One file.", "data": [], "dependencies": [], "scripts": [], "flows": [],
                "files": [
            {"path": EMPTY, "purpose": "marks the package", "uses": [], "covers": [], "interface": []},
            {"path": MODULE, "purpose": "the function", "uses": [], "covers": ["R1"], "interface": [function]}]}

    def _write_code(self, problem: Problem, said: str) -> str:
        if f"You work on this one only: `{EMPTY}`" in said:
            return _file(EMPTY, "")
        return _file(MODULE, problem.with_body(f"    return {problem.bug}\n"))

    def _write_tests(self, problem: Problem, _: str) -> str:
        names = [problem.entry_point, *(name for name in _helpers(problem) if name in problem.test)]
        return _file("tests/test_answer.py",
                     f"from {PACKAGE}.answer import {', '.join(names)}\n\n{problem.test}\n\n"
                     f"def test_the_problem():\n    \"\"\"R1: what its text says.\"\"\"\n    check({problem.entry_point})\n")

    def _package_it(self, problem: Problem, _: str) -> str:
        return _file("pyproject.toml", f"""[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{PACKAGE}"
version = "0.1.0"
description = "One function"
requires-python = ">=3.11"

[tool.setuptools]
packages = ["{PACKAGE}"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
""") + _file("README.md", f"# {problem.entry_point}\n\n    python -m pytest\n")

    def _triage(self, _: Problem, said: str) -> dict[str, Any]:
        why = "\n".join(_FAILURE.findall(said)) or "something is red, and nothing says what"
        return {"code": [{"path": MODULE, "why": why}], "tests": [], "packaging": []}

    def _fix_code(self, problem: Problem, said: str) -> str:
        told = any("assert " in failure and "987654321" in failure for failure in _FAILURE.findall(said))
        return _file(MODULE, problem.with_body(problem.canonical_solution if told else f"    return {problem.bug}  # ?\n"))

    def _report(self, problem: Problem, said: str) -> str:
        return f"# {problem.entry_point}\n"


def _in(problem: Problem, said: str) -> bool:
    """Whether a prompt is about a problem: it shows its text, as it is or as JSON."""
    return problem.prompt.strip() in said or json.dumps(problem.prompt, ensure_ascii=False)[1:-1] in said


def _helpers(problem: Problem) -> list[str]:
    return [node.name for node in ast.parse(f"{problem.prompt}    pass\n").body
            if isinstance(node, ast.FunctionDef) and node.name != problem.entry_point]


def _file(path: str, text: str) -> str:
    return f"=== file: {path} ===\n{text.rstrip()}\n=== end ===\n"
