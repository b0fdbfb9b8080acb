"""The tiers of the tests: what is left out on every change, what `SOP_TESTS=all` brings in, and the seed that is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from mutations.listed import read
from tiers import takes_part

TOP = Path(__file__).resolve().parent.parent


def collected(**environment: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of the tests of full disks in this environment."""
    others = {name: value for name, value in os.environ.items() if name not in ("SOP_TESTS", "SOP_TESTS_SEED")}
    return subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-n", "0",
                           "tests/test_crash_disk.py"], cwd=TOP, env={**others, **environment}, capture_output=True, text=True)


def test_on_every_change_the_slow_ones_stay_out_and_the_seed_is_told() -> None:
    done = collected(SOP_TESTS_SEED="4711")
    assert "test_a_disk_that_is_full_at_some_point_stops_the_run_clearly[insert]" in done.stdout
    assert "test_a_full_disk_stops_the_run_clearly_and_the_resume_works" not in done.stdout
    assert "SOP_TESTS_SEED=4711" in done.stdout and done.returncode == 0


def test_all_of_them_are_there_if_all_are_asked_for() -> None:
    done = collected(SOP_TESTS="all")
    assert "test_a_disk_that_is_full_at_some_point_stops_the_run_clearly[insert]" in done.stdout
    assert "test_a_full_disk_stops_the_run_clearly_and_the_resume_works[insert-100]" in done.stdout


def test_another_tier_is_refused() -> None:
    done = collected(SOP_TESTS="most")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "SOP_TESTS=most: it is `all`, or not set" in done.stderr


ROWS = """
    import pytest

    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("row", range(200))
    def test_row(row):
        pass
"""


def rows(folder: Path, **environment: str) -> set[str]:
    """Of two hundred tests that are marked `one_in(4)`, those that are taken."""
    (folder / "test_rows.py").write_text(dedent(ROWS), encoding="utf-8")
    (folder / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems\n", encoding="utf-8")
    others = {name: value for name, value in os.environ.items() if name not in ("SOP_TESTS", "SOP_TESTS_SEED", "PYTEST_ADDOPTS")}
    found_as_here = {"PYTHONPATH": os.pathsep.join([str(TOP), str(TOP / "tests")])}
    done = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
                           "--rootdir", str(folder), str(folder)], cwd=folder, env={**others, **found_as_here, **environment},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_one_in_four_takes_its_turn_by_the_seed(tmp_path: Path) -> None:
    turns = [rows(tmp_path, SOP_TESTS_SEED=str(4711 + turn)) for turn in range(4)]
    assert [20 < len(turn) < 90 for turn in turns] == [True] * 4
    assert len(set().union(*turns)) == sum(map(len, turns)) == 200, "each of them in one of four runs"
    assert rows(tmp_path, SOP_TESTS_SEED="4711") == turns[0]
    assert len(rows(tmp_path, SOP_TESTS="all")) == 200


def test_what_a_mutation_names_always_takes_part() -> None:
    named = next(mutation for mutation in read() if "[" in mutation.caught_by[0]).caught_by[0]
    assert takes_part(named, 10**9) and not takes_part(f"{named.rpartition('[')[0]}[no such row]", 10**9)
