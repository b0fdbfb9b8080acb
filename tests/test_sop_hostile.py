"""Hostile files end in a problem, soon and in little memory, and never crash the process."""

from __future__ import annotations

import pytest

from benchmarks import hostile


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, hostile.Told]:
    return hostile.told(tmp_path_factory.mktemp("hostile"))


@pytest.mark.one_in(48, always=False)
@pytest.mark.parametrize("name", hostile.FILES)
def test_a_hostile_file_is_told_and_ends(name: str, told: dict[str, hostile.Told]) -> None:
    """In less than a minute of processor time: it takes some tenths of a second, and for ever without the bounds."""
    one, code = told[name], hostile.FILES[name][1]
    assert code in one.codes if code else one.ok, one
    assert one.problems <= (201 if code != "unknown-role" else 600), "what can't be read is told 200 times"
    assert one.mebibytes < 200
