"""A full disk stops a run clearly, at whichever write it is met; with space again the run goes on to the same end.

As in `test_crash.py`, in forks of warmed processes (`crash_trouble.py`): the run must end with an error that names the mend and
with exit status 1, no task, thread or command may be left, and the resume must make what the run in one go makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiers
from crash_pool import Climb, Job, Result, carry_out, climb_all

STEPS = {"insert": 1, "commit": 3, "pages": 5, "file": 1, "temporary": 1}
"""How many writes lie between two that meet the full disk, by what is written; see `crash_trouble.FULL`."""


FEWEST = {"insert": 40, "commit": 40, "pages": 24, "file": 12, "temporary": 10}
"""How many of them a run of a few topics has; on a busy machine, where more is written at once, it may have fewer."""


@pytest.fixture(scope="module")
def some() -> list[Result]:
    """An early and a late point for each."""
    chance = tiers.chance("full disks")
    jobs: list[Job] = [{"full": where, "number": chance.randint(*span)} for where, fewest in FEWEST.items()
                       for span in ((1, fewest // 2), (fewest // 2 + 1, fewest))]
    return tiers.once("some-full-disks", lambda: carry_out(jobs, scene="small"))


@pytest.mark.one_in(32, always=False)
@pytest.mark.parametrize("where", STEPS)
def test_a_disk_that_is_full_at_some_point_stops_the_run_clearly(some: list[Result], where: str) -> None:
    results = [result for result in some if result["full"] == where]
    assert [f"{result['number']}: {fault}" for result in results for fault in result["faults"]] == []
    early, late = results
    assert early["number"] < late["number"] and early["reached"], "the disk was full, and that was met"
    assert [result for result in results if result["excess"] > result["in_flight"]] == []


@pytest.fixture(scope="module")
def full() -> dict[str, list[Result]]:
    def climbed() -> dict[str, list[Result]]:
        climbs = {where: Climb(lambda number, where=where: {"full": where, "number": number}, step)
                  for where, step in STEPS.items()}
        climb_all(*climbs.values())
        return {where: climb.results for where, climb in climbs.items()}

    return tiers.once("full-disks", climbed)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "at_least"), [("insert", 100), ("commit", 33), ("pages", 20), ("file", 20), ("temporary", 12)])
def test_a_full_disk_stops_the_run_clearly_and_the_resume_works(full: dict[str, list[Result]], where: str, at_least: int) -> None:
    results = full[where]
    step = STEPS[where]
    assert [result["number"] for result in results][:at_least] == list(range(1, 1 + step * at_least, step))
    assert [f"{where} {result['number']}: {fault}" for result in results for fault in result["faults"]] == []
    assert [result for result in results if result["excess"] > result["in_flight"]] == []


@pytest.mark.one_in(32, always=False)
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of its own, filled up: the run stops, a little room is made, it stops again, until it is through."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no right to mount a file system here")
    disk = tmp_path / "disk"
    disk.mkdir()
    script = Path(__file__).with_name("crash_small_disk.py")
    mounted = f"mount -t tmpfs -o size=16m none {disk} && exec {sys.executable} {script} {disk} {tmp_path}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mounted], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stdout + done.stderr
    stops = done.stdout.splitlines()
    assert len(stops) > 5 and all("then `sop resume" in stop or "with free space" in stop for stop in stops), done.stdout
