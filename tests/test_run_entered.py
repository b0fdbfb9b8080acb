"""What a run that was made and never entered holds: nothing."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path

import pytest
from scripted import Scripted, events, write

from metaflow_agents import RunSucceeded, UsageError, go_on, resume, run, start
from metaflow_agents.schema.event import Resumed

LETTERS = """
    sop: letters
    inputs: {letter: string}
    roles: {clerk: {profile: You write.}}
    artifacts: {facts: {schema: {sender: string}}, draft: {}, reply: {file: reply.txt}}
    steps:
      read: {role: clerk, needs: [letter], makes: facts}
      sketch: {role: clerk, needs: [facts], makes: draft}
      answer: {role: clerk, needs: [letter, draft], makes: reply}
    outputs: [reply]
"""


def clerk() -> Scripted:
    return Scripted({"read": {"sender": "Jo"}, "sketch": "It says yes.", "answer": "Dear Jo"})


def locks(folder: Path) -> list[Path]:
    return list(folder.rglob("*.lock"))


async def begun(folder: Path) -> None:
    """A run that rests after its first step."""
    await run(write(folder, LETTERS), letter="x", name="one", model=clerk(), workspace=folder, until="read")


@pytest.mark.one_in(4)
async def test_what_is_never_entered_locks_nothing(tmp_path: Path) -> None:
    await begun(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = [go_on("one", model=clerk(), workspace=tmp_path) for _ in range(3)]
        kept.append(start(write(tmp_path, LETTERS), letter="x", name="two", model=clerk(), workspace=tmp_path))
        assert locks(tmp_path) == []
        assert (await resume("one", model=clerk(), workspace=tmp_path)).ok
        assert (await run(write(tmp_path, LETTERS), letter="x", name="two", model=clerk(), workspace=tmp_path)).ok
        del kept
        gc.collect()


async def test_what_came_in_between_is_taken_up(tmp_path: Path) -> None:
    """Made before another sitting and entered after it, a run goes on from where that came to."""
    await begun(tmp_path)
    model = clerk()
    later, last = go_on("one", model=model, workspace=tmp_path), go_on("one", model=model, workspace=tmp_path)
    await resume("one", model=clerk(), workspace=tmp_path, until="sketch")
    async with later as going:
        assert 0 < going.journal.known < going.earlier
        assert (await going.result()).ok
    assert [request.step for request in model.requests] == ["answer"]
    assert len(events(tmp_path, "one", Resumed)) == 2
    with pytest.raises(RunSucceeded, match="nothing to go on with"):
        async with last:
            raise AssertionError("it has ended")
    assert locks(tmp_path) == []


async def test_where_nothing_came_in_between_the_events_are_read_once(tmp_path: Path) -> None:
    await begun(tmp_path)
    async with go_on("one", model=clerk(), workspace=tmp_path) as going:
        assert going.journal.known == going.earlier > 0
        assert (await going.result()).ok
        with pytest.raises(UsageError, match="entered once"):
            await going.__aenter__()


async def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    await begun(tmp_path)
    going = go_on("one", model=clerk(), workspace=tmp_path)
    await run(write(tmp_path, LETTERS), letter="y", name="two", model=clerk(), workspace=tmp_path, until="read")
    (tmp_path / ".journals" / "two.db").replace(tmp_path / ".journals" / "one.db")
    async with going as run_:
        assert run_.journal.known == 0
        await asyncio.wait_for(run_.result(), 30)
        assert run_.journal.state.opened is not None and run_.journal.state.opened.run == "two"
