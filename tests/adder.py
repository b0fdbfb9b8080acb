"""A product of the company, small enough to read: its brief, its author's draft, and an index from which it is installed."""

from __future__ import annotations

import ensurepip
import shutil
from pathlib import Path
from typing import Any

from package_index import installed, only, wheel

from metaflow_agents.settings import Settings

BRIEF: dict[str, Any] = {
    "name": "adder", "kind": "cli", "summary": "Adds.", "user": "Somebody with numbers.", "jobs": ["add"],
    "samples": [{"path": "two.txt", "text": "1\n2", "why": "no line break at the end"}],
    "loved_for": [], "never": ["a wrong sum"],
    "requirements": [{"id": "R1", "text": "adds", "priority": "must"}], "open": []}
BACKEND = '''
import pathlib
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "adder-0.1.0-py3-none-any.whl", "adder-0.1.0.dist-info/"
    held = {str(one.relative_to("src")): one.read_text() for one in sorted(pathlib.Path("src/adder").glob("*.py"))}
    held |= {
            info + "METADATA": "Metadata-Version: 2.1\\nName: adder\\nVersion: 0.1.0\\nRequires-Dist: click\\n",
            info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: adder\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
            info + "entry_points.txt": "[console_scripts]\\nadder = adder:main\\n"}
    held[info + "RECORD"] = "".join(f"{one},,\\n" for one in [*held, info + "RECORD"])
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        for path, text in held.items():
            archive.writestr(path, text)
    return name
'''
PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "backend"
backend-path = ["src"]
[project]
name = "adder"
version = "0.1.0"
dependencies = ["click"]
"""
CODE = """
import sys
import click
def main():
    try:
        print(sum(int(line) for line in open(sys.argv[1])){more})
    except {caught} as error:
        sys.exit(f"adder: {{error}}")
"""
USES = {"uses": [
    {"id": "sum", "why": "adds, and nothing of ours lies about", "command": "ls && test ! -e src && adder examples/two.txt",
     "ends": "zero", "expect": "3"},
    {"id": "missing", "why": "a wrong name", "command": "adder nothing.txt", "ends": "error", "expect": "a line that names it"}]}


def block(path: str, text: str) -> str:
    return f"=== file: {path} ===\n{text.strip()}\n=== end ===\n"


REVIEWED = block("docs/review.json", '{"remarks": [], "mistaken": []}')
"""A revision that leaves a draft as it is."""


def draft(code: str) -> str:
    return (block("pyproject.toml", PYPROJECT) + block("README.md", "# adder") + block("src/backend.py", BACKEND)
            + block("src/adder/__init__.py", code))


def good(caught: str = "OSError", more: str = "") -> str:
    return CODE.format(caught=caught, more=more)


def at_hand(folder: Path, *packages: str) -> Settings:
    """Settings with an index of click, setuptools, pip and `packages`, which are installed here; all runs have one cache."""
    index = folder / "index"
    wheel(index, "click", "8.2", {"click.py": ""})
    wheel(index, "setuptools", "80.0", {"setuptools/__init__.py": ""})
    installed(index, *packages)
    for bundled in (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"):
        shutil.copy(bundled, index)
    return Settings(cache=folder / "cache", pip_environment=only(index), state=folder / "state",
                    command_environment={"PATH": "/usr/bin:/bin"})
