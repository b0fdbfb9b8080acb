"""The contract check on a company's repository: kept as it stands, and every mutant of it caught by name.

`tests/company/` holds a design as an architect makes it and the files as engineers write them from it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract_mutants import Mutant, mutants
from contract_truth import MEANT, judged

from metaflow_agents.kits.python_package import design_faults, extract, verify

FOLDER = Path(__file__).parent / "company"
DESIGN: dict[str, Any] = yaml.safe_load((FOLDER / "design.yaml").read_text(encoding="utf-8"))
SOURCE = {
    path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in sorted((FOLDER / "expenses").rglob("*.py"))
}
PACKAGING = {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "README.md")}


@cache
def all_mutants() -> list[Mutant]:
    """Made by the tests that want them: it takes longer than to collect all tests of the project."""
    return list(mutants(SOURCE, PACKAGING, DESIGN))


@cache
def verified(mutant: Mutant) -> list[dict[str, str]]:
    packaging = None if mutant.packaging is None else dict(mutant.packaging)
    faults: list[dict[str, str]] = verify(dict(mutant.source), packaging, DESIGN)["faults"]
    return faults


def test_the_repository_keeps_its_design() -> None:
    assert design_faults(DESIGN, {"requirements": [{"id": f"R{number}"} for number in range(1, 7)]}) == []
    assert verify(SOURCE, PACKAGING, DESIGN) == {"ok": True, "faults": [], "unchecked": []}
    assert verify(SOURCE, None, extract(SOURCE, "expenses")) == {"ok": True, "faults": [], "unchecked": []}


@pytest.mark.slow
def test_every_mutant_is_caught_by_name(tmp_path: Path) -> None:
    """At least 200, of each kind; a circle counts where Python itself fails on it."""
    kinds, survivors = judged(all_mutants(), verified, tmp_path)
    assert survivors == []
    assert kinds.total() >= 200, kinds
    assert all(kinds[kind] >= 5 for kind in MEANT), kinds


@pytest.mark.slow
def test_a_fault_is_told_of_the_file_that_was_broken() -> None:
    """Nobody else is blamed for a definition that is gone, or that takes something else."""
    blamed = [
        mutant.name
        for mutant in all_mutants()
        if mutant.kind.startswith(("renamed", "removed", "changed", "missing", "broken"))
        and {fault["path"] for fault in verified(mutant)} != {mutant.path}
    ]
    assert blamed == []


@pytest.mark.one_in(8, always=False)
def test_the_check_is_the_same_whatever_the_order_of_the_files() -> None:
    backwards = dict(reversed(SOURCE.items()))
    for mutant in all_mutants()[::20]:
        again = {path: mutant.source[path] for path in backwards if path in mutant.source}
        assert verify(again, PACKAGING, DESIGN) == verify({path: again[path] for path in sorted(again)}, PACKAGING, DESIGN)
