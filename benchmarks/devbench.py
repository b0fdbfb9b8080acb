# ruff: noqa: E501
"""`software_company.yaml` on packages of DevBench: requirements, UML and architecture are given as material, and the reference's code is the author's answer.

    python -m benchmarks.devbench                   # all packages of `devbench` in the folder that SOP_TEST_DATA names; some minutes, from the index that pip is set to
    python -m benchmarks.devbench hone              # this one

The model is a function that sees only prompts and knows the package's reference. Each package is built twice: as it is, and with one
operator, comparison or number changed in one of its files, which the reference's unit tests, served as the tester's answer, have to
show and a fix to repair. In the end the reference's own unit and acceptance tests, which no prompt holds, are run on what came out and,
side by side, on the reference. So the figure says what the procedure does with a model that knows the answer, and nothing of any model.
Ends with 1 where a test passes on the reference and not on the product.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents import start
from metaflow_agents.agent.blocks import Block, written_blocks
from metaflow_agents.kits.company import mutants
from metaflow_agents.models.port import ModelRequest

SOP = Path(__file__).parent.parent / "sops" / "software_company.yaml"
TRIED = 40                          # changes of a package, until one is shown by its unit tests


@dataclass(frozen=True)
class Package:
    """A package of DevBench: its folder, and what `repo_config.json` says."""

    root: Path
    told: dict[str, Any]

    @property
    def name(self) -> str:
        """Its import name."""
        return self.root.name

    @property
    def code(self) -> dict[str, str]:
        """Path below `src/` → text."""
        return {f"src/{path.relative_to(self.root)}": path.read_text("utf-8") for path in sorted((self.root / self.name).rglob("*.py"))}

    @property
    def needs(self) -> list[str]:
        """The packages that it needs."""
        return (self.root / self.told["dependencies"]).read_text("utf-8").split() if self.told["dependencies"] else []

    def data(self) -> dict[str, Path]:
        """The files that its tests read: path → where it lies."""
        found = [one for pattern in self.told["required_files"] for one in self.root.glob(pattern)]
        files = [path for one in found for path in (one.rglob("*") if one.is_dir() else [one]) if path.is_file()]
        return {str(path.relative_to(self.root)): path for path in files}

    def unit_tests(self) -> str:
        """The reference's unit tests as one file that stands in `tests/`; the data lie in `examples/`."""
        texts = [path.read_text("utf-8") for path in sorted((self.root / self.told["unit_tests"]).glob("test_*.py"))]
        texts = [re.sub(r"class (\w+)\(unittest", rf"class \g<1>{number}(unittest", text).replace(
            "os.path.dirname(os.path.dirname(__file__))", "os.getcwd()") for number, text in enumerate(texts)]
        return "import os\nimport pathlib\n\nos.chdir(pathlib.Path(__file__).resolve().parents[1] / 'examples')\n\n" + "\n\n".join(texts)


class Knowing:
    """A model that knows a package, and is asked step by step. `planted`: path → text of a file that is not as the reference has it."""

    def __init__(self, package: Package, planted: dict[str, str]) -> None:
        self._package, self._planted = package, planted
        self.steps: list[str] = []
        self.shown = False

    def __call__(self, request: ModelRequest) -> Any:
        """The answer of this step."""
        step = request.step.rpartition("/")[2]
        self.steps.append(step)
        asked = "\n".join(str(message["content"]) for message in request.messages)
        return getattr(self, f"_{step}")(asked)

    def _plan(self, asked: str) -> Any:
        told = self._package.told
        self.shown = all((self._package.root / told[one]).read_text("utf-8").strip()[:400] in asked
                         for one in ("PRD", "UML_class", "UML_sequence", "architecture_design"))
        return {"name": self._package.name, "kind": "library", "summary": "As its requirements say.", "user": "A developer.",
                "jobs": ["use it"], "samples": [], "given": list(self._package.data()),
                "loved_for": [], "never": ["another result than the requirements say"],
                "requirements": [{"id": "R1", "text": "all that PRD.md asks for", "priority": "must"}], "open": []}

    def _draft(self, _: str) -> str:
        needs = ", ".join(f'"{one}"' for one in self._package.needs)
        project = (f'[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n\n[project]\nname = "{self._package.name}"\n'
                   f'version = "0.1.0"\ndependencies = [{needs}]\n\n[tool.setuptools.packages.find]\nwhere = ["src"]\n')
        files = {"pyproject.toml": project, "README.md": f"# {self._package.name}\n\nA library.\n", **self._package.code, **self._planted}
        return written_blocks([Block("file", path, 0, text=text.strip("\n") + "\n") for path, text in files.items()])

    def _plan_use(self, _: str) -> Any:
        return {"uses": [{"id": "import", "why": "it is there", "command": f"cd examples && python -c 'import {self._package.name}'", "ends": "zero",
                          "expect": "nothing"}]}

    def _revise(self, _: str) -> Any:
        return written_blocks([Block("file", "docs/review.json", 0, text='{"remarks": [], "mistaken": []}\n')])

    def _write_tests(self, asked: str) -> str:
        path = re.search(r"Write `(tests/[^`]+)`", asked)
        assert path
        text = self._package.unit_tests()
        weak = set(re.findall(r"`(test_\w+)` asserts nothing", asked))         # the check says so of some of the reference's
        drop = {number for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name in weak
                for number in range(node.lineno - 1 - len(node.decorator_list), node.end_lineno or node.lineno)}
        kept = [line for number, line in enumerate(text.split("\n")) if number not in drop]
        return written_blocks([Block("file", path[1], 0, text="\n".join(kept))])

    def _judge(self, asked: str) -> Any:
        test = re.search(r'<failure test="([^"]+)"', asked)
        assert test
        wrong = [path for path in self._planted if f'<file path="{path}">' in asked]
        return {"tests": [], "program": [{"path": path, "what": "it is not as the requirements say", "test": test[1]} for path in wrong or self._planted]}

    def _fix_program(self, asked: str) -> str:
        assert all(f'<file path="{path}">' in asked for path in self._planted), "who fixes a file is shown it"
        return written_blocks([Block("file", path, 0, text=self._package.code[path]) for path in self._planted])

    def _strengthen(self, _: str) -> str:
        raise RuntimeError("nothing more")


def passing(package: Package, code: dict[str, str], python: str, tests: str) -> dict[str, bool]:
    """What of the reference's `tests` passes on this code, laid out as DevBench lays it out."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, held in package.data().items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(held, root / path)
        for path, text in code.items():
            if path.startswith("src/"):
                (root / path[4:]).parent.mkdir(parents=True, exist_ok=True)
                (root / path[4:]).write_text(text, encoding="utf-8")
        shutil.copytree(package.root / package.told[tests], root / package.told[tests])
        subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", package.told[tests]],
                       cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, timeout=300)
        report = root / "report.xml"
        cases = ET.parse(report).iter("testcase") if report.exists() else ()
        return {f"{one.get('classname')}::{one.get('name')}": not any(child.tag in ("failure", "error") for child in one) for one in cases}


async def planted(package: Package, python: str, right: dict[str, bool]) -> dict[str, str]:
    """A file with one small change that a unit test shows. Raises ValueError where none is found."""
    code = package.code
    for one in await mutants(code, TRIED):
        data = code[one["path"]].encode()
        text = (data[:one["start"]] + one["now"].encode() + data[one["end"]:]).decode()
        found = passing(package, code | {one["path"]: text}, python, "unit_tests")
        if found.keys() == right.keys() and any(right[test] and not held for test, held in found.items()):
            return {one["path"]: text}
    raise ValueError(f"no small change of {package.name} is shown by its unit tests")


def environment(package: Package, folder: Path) -> str:
    """A Python with pytest and what the package needs."""
    venv.create(folder / "env", with_pip=True)
    python = str(folder / "env/bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", "pytest", *package.needs], check=True, capture_output=True)
    return python


async def built(package: Package, planted_: dict[str, str], folder: Path, name: str) -> tuple[dict[str, str], Knowing, str]:
    """The program that `software_company.yaml` makes of it; who answered; how the run ended."""
    material = folder / f"material-{name}"
    for path in [*(package.told[one] for one in ("PRD", "UML_class", "UML_sequence", "architecture_design")), *package.data()]:
        (material / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package.root / path, material / path)
    model = Knowing(package, planted_)
    async with start(SOP, workspace=folder / "workspace", name=name, model=model, allow=package.needs, yes=True, inputs={
            "idea": f"the package `{package.name}`, as the requirements, the diagrams and the architecture say", "material": material,
            "also": package.needs, "mutants": 2}) as going:
        result = await going.result()
    program = result.outputs.get("program") or {}
    return {path: text for path, text in program.items() if isinstance(text, str) and not path.startswith("tests/")}, model, result.reason or result.outcome


async def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    data = Path(os.environ.get("SOP_TEST_DATA", "../shared/data")) / "devbench"
    asked = parser.parse_args().packages
    worse = 0
    for root in sorted(one.parent for one in data.glob("*/repo_config.json") if not asked or one.parent.name in asked):
        package = Package(root, json.loads((root / "repo_config.json").read_text("utf-8")))
        with tempfile.TemporaryDirectory(prefix="devbench-") as named:
            folder = Path(named)
            python = environment(package, folder)
            right = {tests: passing(package, package.code, python, tests) for tests in ("unit_tests", "acceptance_tests")}
            for name, change in (("as_it_is", {}), ("planted", await planted(package, python, right["unit_tests"]))):
                program, model, ended = await built(package, change, folder, name)
                for tests, reference in right.items():
                    found = passing(package, program, python, tests)
                    lost = sorted(test for test, held in reference.items() if held and not found.get(test))
                    worse += bool(lost)
                    print(f"{package.name:10}{name:10}{tests:18}{sum(found.values()):4} of {len(found):3}   the reference {sum(reference.values()):4} of {len(reference):3}"
                          f"   {'material shown' if model.shown else 'MATERIAL NOT SHOWN'}   {', '.join(change) or '-'}   {' '.join(model.steps)}   {ended[:200]}"
                          + (f"   LOST {', '.join(lost[:5])}" if lost else ""), flush=True)
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
