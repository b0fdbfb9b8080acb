"""Every case of `paths.yaml`: what leads elsewhere is refused, left alone, or stays inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiers

from security.path_scenes import SCENES, SECRET, Case

TABLE: list[dict[str, Any]] = tiers.table(Path(__file__).with_name("paths.yaml"))
KEYS = {"id", "owasp", "what", "scene", "tool", "path", "paths", "expected"}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["id"])
async def test_a_path_does_not_lead_out(row: dict[str, Any], tmp_path: Path) -> None:
    case = Case(tmp_path, row)
    case.outside.mkdir(parents=True)
    (case.outside / "secret.txt").write_text(SECRET)
    before = (case.outside / "secret.txt").stat()
    assert await SCENES[row["scene"]](case) == row["expected"]
    assert (case.outside / "secret.txt").read_text() == SECRET
    assert (case.outside / "secret.txt").stat().st_mode == before.st_mode
    assert [path.name for path in case.outside.iterdir()] == ["secret.txt"], "nothing else was made there"


def test_the_table_is_whole() -> None:
    assert len(TABLE) == len({row["id"] for row in TABLE}) >= 30
    assert all(row.keys() <= KEYS and row["owasp"] and row["what"] for row in TABLE)
    assert {row["scene"] for row in TABLE} == set(SCENES), "every scene is of a case, every case has one"
    assert {row["expected"] for row in TABLE} == {"refused", "harmless", "left"}
