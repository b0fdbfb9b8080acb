"""The contract check: pyproject.toml against the package that it installs."""

from __future__ import annotations

from typing import Any

import pytest
from contract_cases import PYPROJECT, told

FILES = {
    "app/__init__.py": "",
    "app/cli.py": "def main(arguments=None): ...\ndef needs(a): ...\nclass Main:\n    def __init__(self, a): ...",
}
SCRIPT = [{"name": "app", "target": "app.cli:main", "commands": []}]
NEED = [{"name": "rich", "why": "tables"}]


def packed(text: str, files: dict[str, str] | None = None, more: dict[str, str] | None = None, **design: Any) -> list[str]:
    return told(files or FILES, packaging={"pyproject.toml": text, "README.md": "# app", **(more or {})}, **design)


GOOD = {
    "plain": (PYPROJECT, {}),
    "with a script": (PYPROJECT + '[project.scripts]\napp = "app.cli:main"\n', {"scripts": SCRIPT}),
    "a readme": (PYPROJECT.replace("version =", 'readme = "README.md"\nversion ='), {}),
    "packages": (PYPROJECT + '[tool.setuptools]\npackages = ["app"]\n', {}),
    "packages that are found": (PYPROJECT + '[tool.setuptools.packages.find]\ninclude = ["app*"]\n', {}),
    "no build system": (PYPROJECT[PYPROJECT.index("[project]") :], {}),
    "hatchling": (PYPROJECT.replace("setuptools>=61", "hatchling").replace("setuptools.build_meta", "hatchling.build"), {}),
    "hatchling, told which": (
        PYPROJECT.replace("setuptools>=61", "hatchling")
        .replace("setuptools.build_meta", "hatchling.build")
        .replace('name = "app"', 'name = "an-app"')
        + '[tool.hatch.build.targets.wheel]\npackages = ["app"]\n',
        {},
    ),
    "a dependency": (
        PYPROJECT.replace("dependencies = []", "dependencies = [\"Rich[all]>=13; python_version > '3'\"]"),
        {"dependencies": NEED},
    ),
    "a version that is computed": (PYPROJECT.replace('version = "0.1.0"', 'dynamic = ["version"]'), {}),
}
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no TOML": ("[project", {}, "it is no TOML"),
    "no project": ("[tool.x]\na = 1\n", {}, "the table [project] is missing"),
    "no name": (PYPROJECT.replace('name = "app"', ""), {}, "[project] `name` is None"),
    "a bad name": (PYPROJECT.replace('name = "app"', 'name = "my app"'), {}, "`name` is 'my app'"),
    "no version": (PYPROJECT.replace('version = "0.1.0"', ""), {}, "has no `version`"),
    "an invented backend": (
        PYPROJECT.replace("setuptools.build_meta", "setuptools.backends._legacy:_Backend"),
        {},
        'there is no build backend `setuptools.backends._legacy:_Backend`; fix: `build-backend = "setuptools.build_meta"`',
    ),
    "a backend that is not required": (PYPROJECT.replace("setuptools>=61", "wheel"), {}, "`requires` lacks `setuptools`"),
    "a readme that is missing": (PYPROJECT.replace("version =", 'readme = "READ.md"\nversion ='), {}, "names `READ.md`"),
    "a package that is missing": (PYPROJECT + '[tool.setuptools]\npackages = ["application"]\n', {}, "names `application`"),
    "a package that is left out": (
        PYPROJECT + "[tool.setuptools]\npackages = []\n",
        {},
        "lacks `app`, which would not be installed",
    ),
    "hatchling finds nothing": (
        PYPROJECT.replace("setuptools>=61", "hatchling")
        .replace("setuptools.build_meta", "hatchling.build")
        .replace('name = "app"', 'name = "an-app"'),
        {},
        "hatchling looks for a package called like the project",
    ),
    "a script without function": (PYPROJECT + '[project.scripts]\napp = "app.cli"\n', {}, "it names no function"),
    "a script of no module": (PYPROJECT + '[project.scripts]\napp = "app.clli:main"\n', {}, "there is no module `app.clli`"),
    "a script of no function": (
        PYPROJECT + '[project.scripts]\napp = "app.cli:run"\n',
        {},
        "`app/cli.py` has no `run`; there is: Main, main, needs; fix: name a function that is there",
    ),
    "a script that needs something": (PYPROJECT + '[project.scripts]\napp = "app.cli:needs"\n', {}, "`needs(a)` needs `a`"),
    "a script that makes something": (PYPROJECT + '[project.scripts]\napp = "app.cli:Main"\n', {}, "`Main(a)` needs `a`"),
    "a script that is left out": (PYPROJECT, {"scripts": SCRIPT}, '[project.scripts] has no `app`; fix: `app = "app.cli:main"`'),
    "another script": (
        PYPROJECT + '[project.scripts]\napp = "app.cli:needs"\n',
        {"scripts": SCRIPT},
        "the design says `app.cli:main`",
    ),
    "a dependency that the design has not": (
        PYPROJECT.replace("dependencies = []", 'dependencies = ["rich"]'),
        {},
        "has `rich`, which the design does not depend on; fix: remove it",
    ),
    "a dependency that is left out": (PYPROJECT, {"dependencies": NEED}, "lacks `rich`, which the design depends on"),
    "no dependency at all": (
        PYPROJECT.replace("dependencies = []", 'dependencies = [">=1"]'),
        {},
        "the dependency `>=1` is none",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good(name: str) -> None:
    text, design = GOOD[name]
    assert packed(text, **design) == []


@pytest.mark.parametrize("name", BAD)
def test_bad(name: str) -> None:
    text, design, why = BAD[name]
    found = packed(text, **design)
    assert any(why in one for one in found), found
    assert all(one.startswith("pyproject.toml: ") for one in found)


def test_it_is_missing() -> None:
    assert told(FILES, packaging={"README.md": ""}) == [
        "pyproject.toml: `pyproject.toml` is missing; fix: write it, with [build-system] and [project]"
    ]


def test_sub_packages_are_installed_too() -> None:
    files = {**FILES, "app/inner/__init__.py": "", "app/inner/a.py": ""}
    assert "lacks `app.inner`" in packed(PYPROJECT + '[tool.setuptools]\npackages = ["app"]\n', files)[0]
    assert packed(PYPROJECT + '[tool.setuptools]\npackages = ["app", "app.inner"]\n', files) == []


def test_a_dependency_that_the_sandbox_lacks_is_the_architects() -> None:
    text = PYPROJECT.replace("dependencies = []", 'dependencies = ["leftpad"]')
    files = {**FILES, "app/a.py": "import leftpad"}
    assert packed(text, files, dependencies=[{"name": "leftpad", "why": ""}]) == [
        "design: the dependency `leftpad` is not in the environment in which the tests run, and nothing can be installed there; "
        "fix: design it with the standard library"
    ]


def test_code_is_read_by_the_grammar_of_the_oldest_python() -> None:
    files = {**FILES, "app/a.py": "match 1:\n    case 1: pass\n"}
    assert packed(PYPROJECT, files) == []
    found = packed(PYPROJECT.replace(">=3.11", ">=3.9"), files)
    assert len(found) == 1 and found[0].startswith("app/a.py: line 2: `app/a.py` is no Python of Python 3.9"), found
