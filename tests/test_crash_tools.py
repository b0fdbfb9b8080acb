"""A run whose roles act can be killed at every instant: each effect happens once, or is asked about, and it makes the same.

`crash/tools.yaml` is run in forks of warmed processes, which die by SIGKILL at a chosen write of the journal, of `sop answer`
too (`crash_tools_harness.py`). Functions, an MCP server and a web service note what is done outside; whether an effect that a
kill cut off has happened is answered from there, and the resume is compared with the run in one go. On every change a few are
killed within an effect; the rest is for the full tier, and every prefix of the journal for `test_crash_prefixes.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
import tiers
from crash_harness import KILLS
from crash_pool import Climb, Job, Result, carry_out, climb_all
from test_crash import faults

AT_LEAST = 45
"""Writes that the run has. There are some 65; on a busy machine more of them come together in one transaction."""
EFFECTS = {
    "charge@1~0/call": "observed", "pay_all@1[two]~0/turn.1/tool.0": "done", "work@1~0/turn.1/tool.3": "done",
    "work@1~0/turn.1/tool.4": "done", "work@1~0/turn.2/tool.1": "done", "work@1~0/turn.3/tool.0/turn.0/tool.1": "done"}
"""What may happen once, of each kind: the key of the call → the event that ends it."""


def killed_once(**steps: int) -> dict[str, list[Result]]:
    """Phase → runs that were killed in it, at every so-manieth write."""
    climbs = {phase: Climb(lambda number, phase=phase: {"tools": True, "kills": [[number, phase]], "seed": number}, step)
              for phase, step in steps.items()}
    climb_all(*climbs.values(), scene="tools")
    must_end_alike(result for climb in climbs.values() for result in climb.results)
    for phase, climb in climbs.items():
        step, numbers = steps[phase], [result["number"] for result in climb.results if result["number"] <= AT_LEAST]
        assert numbers == list(range(1, AT_LEAST + 1, step)), "every write kills"
    return {phase: climb.results for phase, climb in climbs.items()}


def must_end_alike(results: Iterable[Result]) -> None:
    listed = list(results)
    assert faults(listed) == []
    assert [result for result in listed if result["excess"] > result["in_flight"]] == []
    assert any(result["doubts"] for result in listed), "some effect was asked about, or this test shows nothing"


def killed(kills: list[list[object]], seed: int) -> Job:
    return {"tools": True, "kills": kills, "seed": seed}


def killed_again(count: int, seed: int) -> list[Job]:
    """Runs that are killed, and killed again in the resume: half of the second kills come within its first few writes."""
    chance = random.Random(seed)
    return [killed([[chance.randint(1, AT_LEAST), chance.choice(KILLS)],
                    [chance.choice((chance.randint(1, 8), chance.randint(1, 50))), chance.choice(KILLS)]], number)
            for number in range(count)]


@pytest.mark.slow
def test_killed_at_every_write_each_effect_happens_once() -> None:
    killed_once(before=1, after=3, inserted=14, unsynced=14, torn=14)


@pytest.mark.one_in(32, always=False)
def test_killed_twice_in_one_effect_that_happens_once() -> None:
    """Before it and after it, so that the second answer is another one."""
    results = carry_out([killed([[f"intended {key}", "after"], [f"{end} {key}", "before"]], 0) for key, end in
                         tiers.some([*EFFECTS.items()], 3)], scene="tools")
    must_end_alike(results)
    for result in results:
        assert result["reached"] == 2 and result["doubts"] >= 2, f"killed, asked about, killed and asked about: {result['kills']}"


@pytest.mark.slow
def test_killed_at_any_two_writes_each_effect_happens_once() -> None:
    results = carry_out(killed_again(12, seed=1), scene="tools")
    must_end_alike(results)
    assert sum(result["reached"] > 1 for result in results) > len(results) / 2, "most were killed twice"


@pytest.mark.slow
def test_killed_in_every_write_each_effect_happens_once() -> None:
    killed_once(**dict.fromkeys(KILLS, 1))


@pytest.mark.slow
def test_two_hundred_random_pairs_of_kills() -> None:
    results = carry_out(killed_again(200, seed=2), scene="tools")
    must_end_alike(results)
    assert sum(result["reached"] > 1 for result in results) > 100, "most were killed twice"
