"""The tiers of the tests: what is left out on every change, what `SOP_TESTS=all` brings in, and the seed that is told."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import tiers
from conftest import slow_first
from mutations.listed import read
from tiers import takes_part

TOP = Path(__file__).resolve().parent.parent
TAKEN = "tests/test_crash_disk.py::test_a_disk_that_is_full_at_some_point_stops_the_run_clearly[insert]"
SEED = str(next(seed for seed in range(100) if (zlib.crc32(TAKEN.encode()) + seed) % 8 == 0))
"""A seed with which it is its turn."""


def collected(**environment: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of the tests of full disks in this environment."""
    others = {name: value for name, value in os.environ.items() if name not in ("SOP_TESTS", "SOP_TESTS_SEED")}
    return subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-n", "0",
                           "tests/test_crash_disk.py"], cwd=TOP, env={**others, **environment}, capture_output=True, text=True)


@pytest.mark.one_in(6)
def test_on_every_change_the_slow_ones_stay_out_and_the_seed_is_told() -> None:
    done = collected(SOP_TESTS_SEED=SEED)
    assert TAKEN.partition("::")[2] in done.stdout
    assert "test_a_full_disk_stops_the_run_clearly_and_the_resume_works" not in done.stdout
    assert f"SOP_TESTS_SEED={SEED}" in done.stdout and done.returncode == 0


@pytest.mark.one_in(8, always=False)
def test_all_of_them_are_there_if_all_are_asked_for() -> None:
    done = collected(SOP_TESTS="all")
    assert TAKEN.partition("::")[2] in done.stdout
    assert "test_a_full_disk_stops_the_run_clearly_and_the_resume_works[insert-100]" in done.stdout


@pytest.mark.one_in(3)
def test_another_tier_is_refused() -> None:
    done = collected(SOP_TESTS="most")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "SOP_TESTS=most: it is `all`, or not set" in done.stderr


def test_one_in_four_takes_its_turn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(seed: int) -> set[int]:
        monkeypatch.setattr(tiers, "SEED", seed)
        return {row for row in range(200) if takes_part(f"tests/test_x.py::test_row[{row}]", 4)}

    turns = [turn(4711 + number) for number in range(4)]
    assert [20 < len(each) < 90 for each in turns] == [True] * 4
    assert len(set().union(*turns)) == sum(map(len, turns)) == 200, "each of them in one of four runs"
    assert turn(4711) == turns[0]


@pytest.mark.slow
def test_tests_take_turns_and_all_of_them_are_there_if_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tests/test_crash_disk.py::test_a_disk_that_is_really_full"

    def turn(seed: int) -> bool:
        monkeypatch.setattr(tiers, "SEED", seed)
        return takes_part(name, 32, always=False)
    turns = [seed for seed in range(32) if turn(seed)]
    assert len(turns) == 1
    for seed in (turns[0], turns[0] + 1):
        assert (name in collected(SOP_TESTS_SEED=str(seed)).stdout) == (seed in turns)
    assert name in collected(SOP_TESTS="all").stdout


@pytest.mark.one_in(4)
def test_what_a_mutation_names_always_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOP_TESTS_MUTATED", raising=False)
    named = next(mutation for mutation in read() if "[" in mutation.caught_by[0]).caught_by[0]
    assert takes_part(named, 10**9) and not takes_part(f"{named.rpartition('[')[0]}[no such row]", 10**9)
    assert not takes_part(named, 10**9, always=False)
    monkeypatch.setenv("SOP_TESTS_MUTATED", "1")
    assert takes_part(named, 10**9, always=False), "where mutations are carried out"


class Item:
    """A test, as far as its place among the others depends on it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_closest_marker(self, name: str) -> bool:
        return self.name.startswith(name)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("slow", [0, 1, 5, 20])
def test_each_worker_begins_with_its_part_of_the_slow_ones(workers: int, slow: int) -> None:
    items: list[Any] = [Item(f"{'slow' if number % 4 == 1 and number < 4 * slow else 'fast'} {number}") for number in range(80)]
    ordered = slow_first(items, workers)
    assert sorted(item.name for item in ordered) == sorted(item.name for item in items)
    parts = [ordered[80 * number // workers:80 * (number + 1) // workers] for number in range(workers)]
    for part in parts:
        names = [item.name for item in part]
        many = sum(name.startswith("slow") for name in names)
        assert all(name.startswith("slow") for name in names[:many]) and slow // workers <= many <= -(-slow // workers)
