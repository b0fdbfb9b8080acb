"""The contract check on packages from the package index: no false alarm, and mutants of them caught by name.

The packages are those that this project's own dependencies bring: nothing is downloaded.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from contract_mutants import plans, told
from contract_packages import CANDIDATES, Installed, asked, installed
from contract_truth import failing_imports

from metaflow_agents.kits.python_package import extract
from metaflow_agents.kits.python_package.dependencies import Environment
from metaflow_agents.kits.python_package.verification import verified

HERE = installed()
SMALL = {"iniconfig": 40, "mdurl": 40, "pluggy": 20, "h11": 20}
"""Those whose mutants take a fraction of a second each, and how many of them: all packages are for `-m slow`."""


def package(name: str) -> Installed:
    return Installed(name, CANDIDATES[name])


def test_there_are_ten() -> None:
    assert len(HERE) >= 10, HERE


@pytest.mark.one_in(16, always=False)
@pytest.mark.parametrize("name", HERE)
def test_no_false_alarm_by_their_text(name: str) -> None:
    """Against the interfaces that `extract` reads."""
    one = package(name)
    design = {**extract(one.files, one.package), "dependencies": one.dependencies}
    assert sum(len(file["interface"]) for file in design["files"]) > 1
    assert verified(one.files, None, design, Environment())["faults"] == []


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", HERE)
def test_no_false_alarm_by_pythons_word(name: str) -> None:
    """Against the interfaces that Python tells of the imported modules: another witness than our own reader."""
    one = package(name)
    design = asked(one)
    assert sum(len(file["interface"]) for file in design["files"]) > 1
    assert verified(one.files, None, design, Environment())["faults"] == []


def caught(name: str, most: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """(kind → how many were caught by name, those that were not) of up to `most` mutants of a package, evenly spread."""
    one = package(name)
    design = {**extract(one.files, one.package), "dependencies": one.dependencies}
    # Optional dependencies are not installed here: of what they bring, nothing would be known.
    environment = Environment({dependency["name"]: [dependency["name"]] for dependency in one.dependencies})
    every = plans(one.files, None, design, verified(one.files, None, design, environment)["unchecked"])
    chosen = [mutant for plan in every[:: max(len(every) // most, 1)][:most] if (mutant := plan.build()) is not None]
    kinds, survivors = Counter[str](), []
    before = {module for module, _ in failing_imports(one.files, folder / "whole")}     # for another system, or a program
    for mutant in chosen:
        if told(mutant, verified(mutant.source, None, design, environment)["faults"]):
            kinds[mutant.kind] += 1
        elif mutant.kind != "circular import" or not before.issuperset(
                module for module, _ in failing_imports(mutant.source, folder / str(len(survivors) + kinds.total()))):
            survivors.append(mutant.name)  # a circle that Python has no trouble with is no mutant
    return kinds, survivors


@pytest.mark.one_in(10)
def test_mutants_of_small_packages_are_caught_by_name(tmp_path: Path) -> None:
    found = {name: caught(name, most, tmp_path / name) for name, most in SMALL.items() if name in HERE}
    made = sum((kinds for kinds, _ in found.values()), Counter[str]())
    survivors = list(itertools.chain.from_iterable(lost for _, lost in found.values()))
    assert survivors == []
    assert made.total() >= 100, made
    assert len(made) >= 8, made


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_mutants_of_all_packages_are_caught_by_name(name: str, tmp_path: Path) -> None:
    made, survivors = caught(name, 60, tmp_path)
    assert survivors == []
    assert made.total() >= 10, made
