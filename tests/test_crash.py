"""A run can be killed at every instant, and goes on: to the same artifacts and files, nothing done or paid twice.

`crash/crash.yaml` is run in forks of warmed processes, which die by SIGKILL at a chosen moment (`crash_harness.py`). What the
resume makes of what they left is compared with the run in one go: every version's digest, the folder's bytes and modes, the
fold of the journal, and how often each firing and activation happened. On every change forty moments of all phases are taken by
chance, in a run of a few topics; every prefix of its journal is resumed by `test_crash_prefixes.py`. Every moment of the whole
run is for the full tier.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiers
from crash_harness import BESIDE, KILLS, SOP, desk
from crash_pool import Climb, Job, Result, carry_out, climb_all

from metaflow_agents.api.run import fork, go_on, resume, start
from metaflow_agents.errors import RunBusy, UsageError
from metaflow_agents.journal.journal import Journal

EVERY = ("before", "unsynced", "after")
"""The phases in which every single write kills; the others take every third."""


MOMENTS = 5
"""So many of each phase are taken by chance: one in each fifth of the moments that a run of a few topics has of it."""
FEWEST = {**dict.fromkeys(KILLS, 50), "partial": 20, "renamed": 20, "command": 15}
"""Moments that it has at least, by phase; on a busy machine more events come together in one write."""


@pytest.fixture(scope="module")
def killed() -> list[Result]:
    """Phase by phase, from early to late."""
    chance = tiers.chance("kills")
    jobs: list[Job] = []
    for phase, fewest in FEWEST.items():
        length = fewest // MOMENTS
        jobs += [{"kills": [[place * length + chance.randint(1, length), phase]], "seed": place} for place in range(MOMENTS)]
    return tiers.once("killed", lambda: carry_out(jobs, scene="small"))


@pytest.mark.one_in(32, always=False)
@pytest.mark.parametrize("phase", [*KILLS, *BESIDE])
def test_killed_at_moments_of_every_phase_a_run_goes_on_to_the_same_end(killed: list[Result], phase: str) -> None:
    results = [result for result in killed if result["kills"][0][1] == phase]
    assert faults(results) == []
    assert [result["reached"] for result in results] == [1] * MOMENTS, "each was killed"
    assert [result for result in results if result["excess"] > result["in_flight"]] == []


@pytest.fixture(scope="module")
def deaths() -> dict[str, list[Result]]:
    """Phase → the runs that were killed in it, in the order of the write that killed them."""
    def climbed() -> dict[str, list[Result]]:
        climbs = {phase: Climb(lambda number, phase=phase: {"kills": [[number, phase]], "seed": number},
                               1 if phase in EVERY else 3) for phase in KILLS}
        climb_all(*climbs.values())
        return {phase: climb.results for phase, climb in climbs.items()}

    return tiers.once("deaths", climbed)


def faults(results: list[Result]) -> list[str]:
    return [f"{result.get('kills') or result}: {fault}" for result in results for fault in result["faults"]]


@pytest.mark.slow
@pytest.mark.parametrize("phase", KILLS)
def test_killed_at_every_write_a_run_goes_on_to_the_same_end(deaths: dict[str, list[Result]], phase: str) -> None:
    numbers = [result["number"] for result in deaths[phase]]
    step = 1 if phase in EVERY else 3
    at_least = 100 // step
    assert numbers[:at_least] == list(range(1, 1 + step * at_least, step)), "every write kills, from the first to the hundredth"
    assert faults(deaths[phase]) == []


@pytest.mark.slow
def test_a_resume_asks_again_only_what_was_in_flight(deaths: dict[str, list[Result]]) -> None:
    """In flight: reserved in the journal as the dead process left it, and not settled there."""
    results = [result for phase in KILLS for result in deaths[phase]]
    assert [result for result in results if result["excess"] > result["in_flight"]] == []
    assert any(result["excess"] for result in results), "some call was in flight, or this test shows nothing"


@pytest.mark.slow
def test_killed_between_journal_and_folder_or_beside_a_command() -> None:
    climbs = {phase: Climb(lambda number, phase=phase: {"kills": [[number, phase]], "seed": number}) for phase in BESIDE}
    climb_all(*climbs.values())
    assert {phase: faults(climb.results) for phase, climb in climbs.items()} == {phase: [] for phase in BESIDE}
    assert all(len(climb.results) >= 12 for climb in climbs.values())
    assert any(result["survivors"] for result in climbs["command"].results), "a command was running when its run died"


def killed_again(count: int, seed: int, *, scene: str = "plain") -> list[Result]:
    """Runs that are killed, killed again in the resume, and some of them once more."""
    chance = random.Random(seed)
    jobs = []
    for number in range(count):
        kills = [[chance.randint(1, 115 if scene == "plain" else FEWEST["before"]), chance.choice(KILLS)]]
        kills += [[chance.choice((1, 2, 3, chance.randint(1, 60))), chance.choice(KILLS)] for _ in range(1 + number % 3 // 2)]
        jobs.append({"kills": kills, "seed": number})
    return carry_out(jobs, scene)


def must_go_on_alike(results: list[Result], *, twice: bool = True) -> None:
    assert faults(results) == []
    assert [result for result in results if result["excess"] > result["in_flight"]] == []
    assert not twice or sum(result["reached"] > 1 for result in results) > len(results) / 2, "most were killed twice"


@pytest.mark.one_in(32, always=False)
def test_killed_in_the_resume_and_resumed_again() -> None:
    results = killed_again(6, tiers.SEED, scene="small")
    assert any(result["reached"] > 1 for result in results), "some were killed twice"
    must_go_on_alike(results, twice=False)


@pytest.mark.slow
def test_sixteen_random_pairs_of_kills() -> None:
    must_go_on_alike(killed_again(16, seed=1))


@pytest.mark.slow
def test_two_hundred_random_pairs_of_kills() -> None:
    must_go_on_alike(killed_again(200, seed=2))


@pytest.mark.one_in(16)
def test_a_run_that_was_killed_can_be_forked() -> None:
    """As a whole, and before any of its firings, with the journal as the dead process left it; the run itself goes on too."""
    chance = tiers.chance("forks")
    results = carry_out([{"fork": part * 20 + chance.randint(5, 20), "seed": part} for part in range(2)], scene="small")
    assert faults(results) == []
    assert sum(result["reached"] for result in results) > 2, "forks of killed runs, each to the same end"


@pytest.mark.slow
def test_a_run_that_was_killed_anywhere_can_be_forked() -> None:
    results = carry_out([{"fork": number, "seed": number} for number in range(5, 110, 9)])
    assert faults(results) == []
    assert sum(result["reached"] for result in results) > 20, "forks of killed runs, each to the same end"


def stopped(count: int, seed: int, *, scene: str = "plain") -> list[Result]:
    return carry_out([{"stop": number} for number in range(seed, seed + count)], scene)


def must_stop_alike(results: list[Result]) -> None:
    assert faults(results) == []
    assert [result for result in results if result["excess"] > result["in_flight"]] == []
    assert sum(result["reached"] for result in results) > len(results) / 2, "most were stopped before their end"


@pytest.mark.one_in(32, always=False)
def test_stopped_at_any_moment_nothing_is_left_running_and_the_resume_makes_the_same() -> None:
    """By `Run.stop`, which is what Ctrl-C does: once, or several times in a hurry."""
    must_stop_alike(stopped(12, tiers.SEED, scene="small"))


@pytest.mark.slow
def test_stopped_at_forty_moments() -> None:
    must_stop_alike(stopped(40, seed=0))


@pytest.mark.slow
def test_stopped_at_four_hundred_moments() -> None:
    must_stop_alike(stopped(400, seed=1000))


@pytest.fixture
def letter() -> Iterator[None]:
    """The gate of `crash.yaml` open, so that a run needs nobody beside it."""
    desk.new_desk()
    desk.letter_came().set()
    yield
    desk.new_desk()


@pytest.mark.one_in(8, always=False)
async def test_a_run_open_here_is_refused_to_a_second(tmp_path: Path, letter: None) -> None:
    model = desk.answering(tmp_path / "calls")
    async with start(SOP, model=model, sandbox="none", name="one", workspace=tmp_path, inputs={"topics": desk.TOPICS}) as going:
        with pytest.raises(RunBusy, match="run `one` is open in process"):
            go_on("one", model=model, workspace=tmp_path)
        with pytest.raises(RunBusy, match="run `one` is open in process"):
            async with start(SOP, model=model, sandbox="none", name="one", workspace=tmp_path, inputs={"topics": desk.TOPICS}):
                pass
        branch = fork("one", workspace=tmp_path)            # reading it is free, also while it runs
        assert (await going.result()).ok
    assert (await resume(branch, model=model, workspace=tmp_path)).ok
    with pytest.raises(UsageError, match="has succeeded"):
        go_on("one", model=model, workspace=tmp_path)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("stopped_at", [None, 0, 60])
async def test_who_subscribed_hears_the_end(tmp_path: Path, letter: None, stopped_at: int | None) -> None:
    """Also where the run is stopped, or its journal can't be written any more: nobody waits for what will not come."""
    run = start(SOP, model=desk.answering(tmp_path / "calls"), sandbox="none", workspace=tmp_path, inputs={"topics": desk.TOPICS})
    heard = 0
    async with run as going, asyncio.timeout(60):
        if stopped_at == 0:
            going.stop()
        async for _ in going.bus.subscribe(after=0):
            heard += 1
            if stopped_at and heard > 3:
                going.stop()
        assert (await going.result()).outcome == ("success" if stopped_at is None else "interrupted")
    assert (heard > 20) == (stopped_at is None)


def python(text: str, path: Path) -> subprocess.Popen[bytes]:
    found_as_here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", text, str(path)], stdout=subprocess.PIPE, env=found_as_here)


@pytest.mark.one_in(4)
async def test_a_command_that_was_just_being_started_does_not_keep_the_run_from_its_resume(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between fork and exec it shares the dead process's lock: a resume at once waits for that, and for nothing else."""
    path = tmp_path / "run.db"
    await Journal.create(path).close()
    holding = (
        "import subprocess, sys, time; from pathlib import Path; from metaflow_agents.journal.journal import Journal\n"
        "journal = Journal.open(Path(sys.argv[1]))\n"
        "subprocess.Popen(['sleep', '0.4'], pass_fds=[journal._lock._fd])\n"
        "print(flush=True); time.sleep(60)")
    with python(holding, path) as holder:
        holder.stdout.readline()
        with monkeypatch.context() as patch, pytest.raises(RunBusy, match=f"open in process {holder.pid}"):
            patch.setattr("metaflow_agents.journal.lock.time.sleep", lambda _: pytest.fail("who holds it lives: no waiting"))
            Journal.open(path)
        holder.kill()
    async with Journal.open(path):
        pass
