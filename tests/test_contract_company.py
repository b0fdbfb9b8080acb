"""The contract check on a company's repository: kept as it stands, and every mutant of it caught by name.

`tests/company/` holds a design as an architect makes it and the files as engineers write them from it.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract_mutants import Mutant, mutants, told
from contract_truth import failing_imports

from metaflow_agents.contract import design_faults, extract, verify

FOLDER = Path(__file__).parent / "company"
DESIGN: dict[str, Any] = yaml.safe_load((FOLDER / "design.yaml").read_text(encoding="utf-8"))
SOURCE = {
    path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in sorted((FOLDER / "expenses").rglob("*.py"))
}
PACKAGING = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "README.md")}
MUTANTS = list(mutants(SOURCE, PACKAGING, DESIGN))


@cache
def told_of(number: int) -> list[dict[str, str]]:
    return verified(MUTANTS[number])


def verified(mutant: Mutant) -> list[dict[str, str]]:
    packaging = None if mutant.packaging is None else dict(mutant.packaging)
    faults: list[dict[str, str]] = verify(dict(mutant.source), packaging, DESIGN)["faults"]
    return faults


def test_the_repository_keeps_its_design() -> None:
    assert design_faults(DESIGN, {"requirements": [{"id": f"R{number}"} for number in range(1, 7)]}) == []
    assert verify(SOURCE, PACKAGING, DESIGN) == {"ok": True, "faults": [], "unchecked": []}
    assert verify(SOURCE, None, extract(SOURCE, "expenses")) == {"ok": True, "faults": [], "unchecked": []}


def test_every_mutant_is_caught_by_name(tmp_path: Path) -> None:
    """At least 200, of each kind; a circle counts where Python itself fails on it."""
    survivors, kinds = [], Counter[str]()
    for number, mutant in enumerate(MUTANTS):
        if mutant.kind == "circular import" and not failing_imports(mutant.source, tmp_path / str(number)):
            assert told_of(number) == [], "a circle that works is no fault"
            continue
        kinds[mutant.kind.partition(",")[0]] += 1
        if not told(mutant, told_of(number)):
            survivors.append(mutant.name)
    assert survivors == []
    assert kinds.total() >= 200, kinds
    wanted = {"renamed", "removed", "changed signature", "missing file", "circular import", "undeclared dependency"}
    assert all(kinds[kind] >= 5 for kind in wanted), kinds


def test_a_fault_is_told_of_the_file_that_was_broken() -> None:
    """Nobody else is blamed for a definition that is gone, or that takes something else."""
    blamed = [
        mutant.name
        for number, mutant in enumerate(MUTANTS)
        if mutant.kind.startswith(("renamed", "removed", "changed", "missing", "broken"))
        and {fault["path"] for fault in told_of(number)} != {mutant.path}
    ]
    assert blamed == []


def test_the_check_is_the_same_whatever_the_order_of_the_files() -> None:
    backwards = dict(reversed(SOURCE.items()))
    for mutant in MUTANTS[::20]:
        again = {path: mutant.source[path] for path in backwards if path in mutant.source}
        assert verify(again, PACKAGING, DESIGN) == verify({path: again[path] for path in sorted(again)}, PACKAGING, DESIGN)


RECORDED = os.environ.get("SOP_RECORDED_COMPANY", "")


@pytest.mark.skipif(
    not RECORDED, reason="SOP_RECORDED_COMPANY names no folder with design.yaml and the repository of a recorded run"
)
def test_a_recorded_repository() -> None:
    folder = Path(RECORDED)
    design = yaml.safe_load((folder / "design.yaml").read_text(encoding="utf-8"))
    source = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in (folder / design["package"]).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    packaging = {name: (folder / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "README.md")}
    assert verify(source, packaging, design)["faults"] == []
    found = list(mutants(source, packaging, design))
    survivors = [
        mutant.name
        for mutant in found
        if mutant.kind != "circular import"
        and not told(mutant, verify(dict(mutant.source), dict(mutant.packaging or {}), design)["faults"])
    ]
    assert survivors == []
    assert len(found) >= 200
