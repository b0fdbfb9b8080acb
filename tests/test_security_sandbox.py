"""Every case of `tests/security/sandbox.yaml`, as root and as an ordinary user: what came of it is what was expected."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from sandboxes import BWRAP, by_an_ordinary_user, needs_bubblewrap
from security_scenes import INSIDE, SCENES

from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.limits import Limits

pytestmark = needs_bubblewrap
TABLE = Path(__file__).parent / "security/sandbox.yaml"
ROWS: dict[str, Mapping[str, Any]] = {row["id"]: row for row in yaml.safe_load(TABLE.read_text(encoding="utf-8"))}
AS_ROOT = os.geteuid() == 0


async def outcome(row: Mapping[str, Any], folder: Path) -> str:
    """What came of one case. `folder`: a new one, that everybody may look into; copies lie in one of their own."""
    copies = folder / "copies"
    copies.mkdir()
    tempfile.tempdir = str(copies)
    if "scene" in row:
        return await SCENES[row["scene"]](folder)
    box = Bubblewrap(BWRAP, {}, limits=Limits(**row.get("limits", {})))
    ran = await box.run(["python", "-c", INSIDE + row["inside"]], files={}, timeout=row.get("timeout", 30))
    last = (ran.stderr.splitlines() or [""])[-1]
    if last.startswith("ended by the sandbox: "):
        return last.replace(" by the sandbox", "", 1)
    return (ran.stdout.splitlines() or [f"exit {ran.exit_code}: {ran.stderr[-600:]}"])[-1]


def all_outcomes() -> dict[str, str]:
    found = {}
    before = tempfile.gettempdir()
    for name, row in ROWS.items():
        with tempfile.TemporaryDirectory(dir=before, prefix="sop-case-") as folder:
            os.chmod(folder, 0o755)
            try:
                found[name] = asyncio.run(outcome(row, Path(folder)))
            except Exception as error:              # so that one case more or less does not hide the others
                found[name] = f"{type(error).__name__}: {error}"
    tempfile.tempdir = before
    return found


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, str]]:
    """User → case → what came of it."""
    if not AS_ROOT:
        return {"ordinary": all_outcomes()}
    with tempfile.TemporaryDirectory(prefix="sop-ordinary-") as home:
        with ThreadPoolExecutor(1) as beside:
            ordinary = beside.submit(by_an_ordinary_user, [__file__], Path(home))
            found = all_outcomes()
            done = ordinary.result()
    assert done.returncode == 0, done.stderr[-3000:]
    return {"root": found, "ordinary": json.loads(done.stdout)}


@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.parametrize("case", ROWS)
def test_nothing_escapes(case: str, user: str, outcomes: dict[str, dict[str, str]]) -> None:
    row = ROWS[case]
    if platform.machine() not in row.get("machines", [platform.machine()]):
        pytest.skip(f"a case for {row['machines']} alone")
    if user not in outcomes:
        pytest.skip("nobody but root can be root")
    assert outcomes[user][case] in row["expected"], row["what"]


def test_the_table_is_whole() -> None:
    assert len(ROWS) == TABLE.read_text(encoding="utf-8").count("\n- id: ") >= 40
    known = {"id", "owasp", "what", "inside", "scene", "expected", "limits", "timeout", "machines"}
    for row in ROWS.values():
        assert row.keys() <= known and row["expected"] and ("inside" in row) != ("scene" in row), row
        assert row["owasp"].startswith(("LLM", "ASI")), row
    assert {row["scene"] for row in ROWS.values() if "scene" in row} == SCENES.keys()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(all_outcomes()))
