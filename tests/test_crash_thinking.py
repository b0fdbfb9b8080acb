"""Strategies, plans, SOPs as steps and memory can be killed at every instant: the same comes of them, nothing is paid twice.

The scenes of `crash_scenes.py` are run in forks of warmed processes, which die by SIGKILL at a chosen write of the journal
(`crash_thinking.py`). What the resume makes is compared with the run in one go: outcome, every version with its label, the
folder, how often each firing, activation, call and observation happened, and what every role was told. No call that was
settled is asked again, and who pays does so once. All of that is for the full tier: on every change `test_crash_prefixes.py`
resumes what a kill leaves of each scene without killing.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import tiers
from crash_harness import KILLS, MEMORY
from crash_pool import Climb, Job, Result, carry_out, climb_all
from crash_scenes import SCENES
from crash_thinking import staged
from test_crash import faults

from metaflow_agents.schema.role import Memory
from metaflow_agents.schema.strategies import STRATEGIES
from metaflow_agents.sop.load import load_sop

EVERY = ("before", "unsynced", "after")
"""The phases in which every single write kills, of `unsynced` every third: for a kill it is what `after` is. The slow test
kills in every write of every phase."""
AT_LEAST = 3
"""Writes that each run has. Most have ten to thirty; on a busy machine more events come together in one."""
Deaths = dict[str, dict[str, list[Result]]]
"""Scene → phase → what came of the runs that were killed in it."""
HERE = [name for name, scene in SCENES.items() if not scene.missing]
names = pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.skipif(bool(scene.missing), reason=scene.missing)) for name, scene in SCENES.items()])


def killed(name: str, *kills: tuple[int, str], seed: int = 0) -> Job:
    return {"scene": name, "kills": [list(kill) for kill in kills], "seed": seed}


def killed_once(*phases: str, sampled: bool = True) -> Deaths:
    """The runs that were killed in a phase, in the order of the write that killed them."""
    climbs = {name: {phase: Climb(lambda number, name=name, phase=phase: killed(name, (number, phase), seed=number),
                                  step(name, phase) if sampled else 1, misses=1) for phase in phases} for name in HERE}
    climb_all(*(climb for of_phases in climbs.values() for climb in of_phases.values()), scene="thinking")
    return {name: {phase: climb.results for phase, climb in of_phases.items()} for name, of_phases in climbs.items()}


def step(name: str, phase: str) -> int:
    """Of so many writes one kills."""
    return max(SCENES[name].every, 3 if phase == "unsynced" else 1)


@pytest.fixture(scope="module")
def deaths() -> Deaths:
    return tiers.once("deaths-while-thinking", lambda: killed_once(*EVERY))


def must_end_alike(name: str, by_phase: dict[str, list[Result]], *, sampled: bool = True) -> None:
    for phase, results in by_phase.items():
        numbers, every = [result["number"] for result in results], step(name, phase) if sampled else 1
        sure = max(len(numbers) - 2, 0)             # on a busy machine a run has a write less, and its last ones may be missed
        assert numbers[:sure] == list(range(1, every * sure + 1, every)), f"{phase}: every write kills"
        assert numbers == sorted(set(numbers)) and numbers[-1] + every > AT_LEAST, f"{phase}: a scene has writes"
    listed = [result for results in by_phase.values() for result in results]
    assert faults(listed) == []
    asked_again = [result for result in listed if result["excess"] > result["in_flight"]]
    assert SCENES[name].freely or asked_again == [], "only what was in flight is asked again"


@pytest.mark.slow
@names
def test_killed_at_every_write_it_comes_to_the_same(deaths: Deaths, name: str) -> None:
    must_end_alike(name, deaths[name])


@pytest.mark.slow
def test_calls_were_in_flight_and_payments_were_cut_off(deaths: Deaths) -> None:
    """Or those above show nothing."""
    for name in (name for name in HERE if SCENES[name].every == 1):
        listed = [result for results in deaths[name].values() for result in results]
        if max(result["number"] for result in listed) > 2 * AT_LEAST:       # shorter ones have a single call, and may miss it
            assert any(result["in_flight"] for result in listed), name
        assert any(result["doubts"] for result in listed) == bool(SCENES[name].pays), name


def killed_again(count: int, seed: int) -> list[Job]:
    """Runs that are killed, and killed again in the resume, soon or late; in all phases."""
    chance = random.Random(seed)
    return [killed(name, (chance.randint(1, 16), chance.choice(KILLS)), (chance.choice((1, 2, 3, chance.randint(1, 9))),
                                                                         chance.choice(KILLS)), seed=number)
            for number in range(count) for name in HERE]


@pytest.mark.slow
def test_killed_in_the_resume_and_resumed_again() -> None:
    results = carry_out(killed_again(2, seed=1), scene="thinking")
    assert faults(results) == []
    assert sum(result["reached"] > 1 for result in results) > len(results) / 3, "many were killed twice"


@pytest.mark.slow
def test_what_is_remembered_comes_into_the_projects_memory_once() -> None:
    least = {"recall": 5, "reflections": 4}
    climbs = {(name, phase): Climb(lambda number, name=name, phase=phase: killed(name, (number, phase), seed=number))
              for name in least for phase in MEMORY}
    climb_all(*climbs.values(), scene="thinking")
    for (name, phase), climb in climbs.items():
        assert faults(climb.results) == [] and len(climb.results) >= least[name], (name, phase)


@pytest.mark.slow
def test_killed_in_every_phase_of_every_write_it_comes_to_the_same() -> None:
    for name, by_phase in killed_once(*KILLS, sampled=False).items():
        must_end_alike(name, by_phase, sampled=False)


@pytest.mark.slow
def test_five_hundred_random_pairs_of_kills() -> None:
    results = carry_out(killed_again(500 // len(HERE) + 1, seed=2), scene="thinking")
    assert faults(results) == []


def test_every_strategy_has_a_scene(tmp_path: Path) -> None:
    """And so has every other way in which roles think, remember and work together."""
    strategies, ways, remembers = set(), set(), set()
    with staged(tmp_path / "home") as folder:
        programs = [inner for name in SCENES for inner in load_sop(folder / f"{name}.yaml").program.all()]
    for program in programs:
        sop = program.sop
        for step in sop.steps.values():
            strategies |= {*(step.strategy or (["single"] if step.role else []))}
            ways |= {way for way in ("review", "talks_to", "stuck", "sop") if getattr(step, way)}
        ways |= {"progress"} if sop.progress else set()
        ways |= {"graph" for artifact in sop.artifacts.values() if artifact.graph}
        remembers |= {way for role in sop.roles.values() for way in Memory.model_fields if getattr(role.memory, way)}
        remembers |= {"embeddings" for role in sop.roles.values() if role.memory.recall and role.memory.recall.embeddings}
        remembers |= {"self" for step in sop.steps.values() if step.self_}
    assert strategies == set(STRATEGIES), "give a new strategy a scene in `crash_scenes.py`"
    assert ways == {"review", "talks_to", "stuck", "sop", "progress", "graph"}
    assert remembers == {*Memory.model_fields, "embeddings", "self"}, (
        "give a new way to remember a scene in `crash_scenes.py`"
    )
