"""Every case of `tests/security/sandbox.yaml`, in each sandbox, as root and as an ordinary user: what comes of it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiers
from sandboxes import LACKING, by_an_ordinary_user, no_containers, no_landlock
from security_scenes import INSIDE, SCENES, Backend, box

from metaflow_agents.sandbox.limited import OUTSIDER
from metaflow_agents.schema.model import fingerprint

TABLE = Path(__file__).parent / "security/sandbox.yaml"
ROWS: dict[str, Mapping[str, Any]] = {
    row["id"]: row for row in tiers.table(TABLE)}
AS_ROOT = os.geteuid() == 0
TOGETHER = 10


BATTERIES = {                               # sandbox, who runs it → one row of how many is tried on each change; 0: none is
    ("bubblewrap", "root"): 2, ("bubblewrap", "ordinary"): 8,
    ("landlock", "root"): 0, ("landlock", "ordinary"): 0, ("landlock", "without namespaces"): 6,
    ("container", "root"): 0,
}


def always(backend: str, user: str) -> frozenset[str]:
    """The rows of a battery that are tried on each change: others with each seed, and those that a mutation names."""
    part = BATTERIES[backend, user]
    here = f"tests/{Path(__file__).name}::test_nothing_escapes"
    return frozenset(case for case in ROWS if part and tiers.takes_part(f"{here}[{case}-{backend}-{user}]", part))


async def outcome(row: Mapping[str, Any], folder: Path) -> str:
    """What came of one case. `folder`: a new one, that everybody may look into; copies lie in one of their own."""
    copies = folder / "copies"
    copies.mkdir()
    tempfile.tempdir = str(copies)
    if "scene" in row:
        return await SCENES[row["scene"]](folder)
    argv = ["python", "-c", INSIDE + row["inside"]]
    ran = await box(**row.get("limits", {})).run(argv, files={}, timeout=row.get("timeout", 30))
    last = (ran.stderr.splitlines() or [""])[-1]
    if last.startswith("ended by the sandbox: "):
        return last.replace(" by the sandbox", "", 1)
    return (ran.stdout.splitlines() or [f"exit {ran.exit_code}: {ran.stderr[-600:]}"])[-1]


def all_outcomes(backend: str, cases: Iterable[str]) -> dict[str, str]:
    found = {}
    Backend.name = backend
    before = tempfile.gettempdir()
    for name in cases:
        row = ROWS[name]
        with tempfile.TemporaryDirectory(dir=before, prefix="sop-case-") as folder:
            os.chmod(folder, 0o755)
            try:
                found[name] = asyncio.run(outcome(row, Path(folder)))
            except Exception as error:              # so that one case more or less does not hide the others
                found[name] = f"{type(error).__name__}: {error}"
    tempfile.tempdir = before
    Backend.name = "bubblewrap"
    return found


def here(backend: str, user: str) -> bool:
    """Whether this process can run these commands. A root whose Python is closed to others can't use landlock."""
    return (user == "root") == AS_ROOT and backend != "landlock"


def together(backend: str, user: str, case: str) -> tuple[str, ...]:
    """The cases that are worked out with this one: a process of its own costs a second, and does some of them."""
    if here(backend, user):
        return (case,)
    sampled = always(backend, user)
    alike = [name for name in ROWS if (name in sampled) == (case in sampled)]
    first = alike.index(case) // TOGETHER * TOGETHER
    return tuple(alike[first:first + TOGETHER])


@cache
def outcomes_of(backend: str, user: str, cases: tuple[str, ...]) -> Mapping[str, str]:
    """Case → what came of it, worked out once for all workers that run these tests side by side."""
    shared = Path(os.environ["SOP_TESTS_HOME"]) / f"{backend}, {user}, {fingerprint(list(cases))[:16]}.json"
    with open(shared, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (known := file.read()):
            known = json.dumps(worked_out(backend, user, cases))
            file.write(known)
    found: dict[str, str] = json.loads(known)
    return found


def worked_out(backend: str, user: str, cases: tuple[str, ...]) -> dict[str, str]:
    if here(backend, user):
        return all_outcomes(backend, cases)
    with tempfile.TemporaryDirectory(prefix="sop-ordinary-") as home:
        os.chmod(home, 0o755)                   # root's commands become a user who has to walk through it
        done = by_an_ordinary_user([__file__, backend, *cases], Path(home), user=0 if user == "root" else OUTSIDER,
                                   namespaces=user != "without namespaces")
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout)
    return found


def refuse_what_is_not_here(backend: str, user: str) -> None:
    if user != "ordinary" and not AS_ROOT:
        pytest.skip("nobody but root can be root, or take namespaces away")
    lacking = {"bubblewrap": LACKING, "landlock": no_landlock(), "container": ""}[backend] or (
        no_containers() if backend == "container" else "")
    if lacking:
        pytest.skip(f"{backend}: {lacking}")


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("backend", "user", "case"), [
    pytest.param(*battery, case, marks=() if case in always(*battery) else pytest.mark.slow, id="-".join((case, *battery)))
    for battery in BATTERIES for case in ROWS])
def test_nothing_escapes(backend: str, user: str, case: str) -> None:
    row = ROWS[case]
    if platform.machine() not in row.get("machines", [platform.machine()]):
        pytest.skip(f"a case for {row['machines']} alone")
    refuse_what_is_not_here(backend, user)
    expected = row.get("differs", {}).get(backend, row)["expected"]
    assert outcomes_of(backend, user, together(backend, user, case))[case] in expected, row["what"]


def test_the_table_is_whole() -> None:
    assert len(ROWS) == TABLE.read_text(encoding="utf-8").count("\n- id: ") >= 40
    known = {"id", "owasp", "what", "inside", "scene", "expected", "limits", "timeout", "machines", "differs"}
    for row in ROWS.values():
        assert row.keys() <= known and row["expected"] and ("inside" in row) != ("scene" in row), row
        assert row["owasp"].startswith(("LLM", "ASI")), row
        for backend, other in row.get("differs", {}).items():
            assert backend in ("landlock", "container") and other.keys() == {"expected", "why"}, row
            assert other["expected"] and len(other["why"].split()) > 3, row
    assert {row["scene"] for row in ROWS.values() if "scene" in row} == SCENES.keys()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(all_outcomes(sys.argv[1], sys.argv[2:])))
