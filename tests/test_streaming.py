"""Decision 41: an item goes on as soon as what it comes after is done where both are steps of one SOP, a task of a plan."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from scripted import write
from virtual_time import simulated

from metaflow_agents import check, run
from metaflow_agents.models.port import ModelRequest

CHAPTER = """
    sop: chapter
    inputs: {title: string}
    roles: {writer: {profile: You write.}}
    artifacts: {draft: {}, text: {}}
    steps:
      draft_it: {role: writer, needs: [title], makes: draft}
      mend_it: {role: writer, needs: [draft], makes: text}
    outputs: [text]
"""
BOOK = """
    sop: desk
    inputs: {chapters: [string]}
    roles: {writer: {profile: You write.}}
    artifacts: {DRAFTStexts: {each: string}}
    steps:
"""
APART = BOOK.replace("DRAFTS", "drafts: {each: string}, ") + """
      draft_it: {role: writer, needs: [chapters], foreach: {in: chapters}, makes: drafts}
      mend_it: {role: writer, needs: [chapters, drafts], foreach: {in: chapters}, task: "Mend {{ drafts[item] }}", makes: texts}
"""
WITHIN = BOOK.replace("DRAFTS", "") + """
      write: {sop: chapter, inputs: {title: item}, needs: [chapters], foreach: {in: chapters}, makes: texts}
"""


def seconds(folder: Path, text: str, took: dict[tuple[str, str], float]) -> float:
    """How long the run is under way where each call takes so long: (step, chapter) → seconds."""
    async def model(request: ModelRequest) -> str:
        await asyncio.sleep(took[request.step, request.key.partition("[")[2].partition("]")[0]])
        return "x"

    async def timed() -> float:
        began = asyncio.get_running_loop().time()
        result = await run(write(folder, text, chapter_yaml=CHAPTER), chapters=sorted({key for _, key in took}), model=model,
                           workspace=None)
        assert result.ok, result.reason
        return asyncio.get_running_loop().time() - began

    return simulated(timed())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(3))
def test_a_sop_as_a_task_waits_for_nothing_but_its_own_steps(tmp_path: Path, seed: int) -> None:
    """Of twenty chapters no mending waits for another chapter's draft: the run takes as long as the longest chapter."""
    chance = random.Random(seed)
    took = {(step, f"c{number:02}"): chance.expovariate(1) for number in range(20) for step in ("draft_it", "mend_it")}
    keys = {key for _, key in took}
    longest = max(took["draft_it", key] + took["mend_it", key] for key in keys)
    barrier = max(took["draft_it", key] for key in keys) + max(took["mend_it", key] for key in keys)
    assert seconds(tmp_path, WITHIN, took) == pytest.approx(longest, abs=0.01)
    assert seconds(tmp_path, APART, took) == pytest.approx(barrier, abs=0.01)
    assert longest < barrier


def test_stream_is_refused_and_the_way_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, APART.replace("foreach: {in: chapters}, task", "foreach: {in: chapters, stream: true}, task"))
    (error,) = check(path).errors
    assert "`stream`" in str(error) and "`sop:`" in str(error), error
