"""A journal of five thousand activations: memory stays flat while it is written, and a resume is at work within seconds."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.large_journal import Shape, answering, make_large_journal
from metaflow_agents.api.run import go_on
from metaflow_agents.cli.entry_point import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.state import RunState
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.schema.event import Finished, Fired, Reserved, RunEnded, Settled

ACTIVATIONS = 5000
CHARACTERS = 10_000
MEGABYTE = 1_000_000
SHAPES: tuple[Shape, ...] = ("wide", "many", "deep")


@pytest.mark.parametrize(("shape", "inputs"), [
    ("wide", {"count": ACTIVATIONS + 100}),     # at the last one the outputs, 50 MB, are read for the caller
    ("many", {"rounds": ACTIVATIONS // 100}),
    ("deep", {"rounds": ACTIVATIONS // 2, "filler": "x" * 100}),
    pytest.param("deep", {"rounds": ACTIVATIONS, "filler": "x" * CHARACTERS}, marks=pytest.mark.slow),
])
@pytest.mark.slow
def test_memory_is_flat_while_it_is_written(tmp_path: Path, shape: str, inputs: dict[str, Any]) -> None:
    """Between the thousandth and the five thousandth activation the process grows by less than 30 MB.

    In `wide` and `many` that is while 40 MB of answers pass through it, each of them journalled in three places: what the
    state keeps of an activation are digests and keys.
    """
    script = Path(__file__).with_name("large_run.py")
    command = [sys.executable, str(script), shape, str(CHARACTERS), str(tmp_path), json.dumps(inputs)]
    found_as_here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=found_as_here)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["outcome"] == "success" and told["activations"] >= ACTIVATIONS
    assert told["growth"] < 30 * MEGABYTE
    if shape != "deep":
        assert told["written"] > (ACTIVATIONS - 1000) * CHARACTERS


def test_what_an_item_needed_is_forgotten_when_it_is_done() -> None:
    """Else a wide step would hold every call of every item until the last one is done."""
    state, key = RunState(), "work@1[a]~0/turn.0"
    state.apply(1, Fired(step="work", round=1, read={}, items=("a", "b")))
    state.apply(2, Reserved(key=key, role="worker", digest="d", request="r", model="m", tokens=1))
    state.apply(3, Settled(key=key, reply="answer"))
    slot = state.active["work@1"].slot("a")
    assert list(slot.calls) == [key]
    state.apply(4, Finished(activation="work@1[a]~0", payload="p", digest="d", parts={}))
    assert not slot.calls and list(state.active["work@1"].done) == ["a"]


@pytest.mark.one_in(32)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_resume_goes_on_where_it_was(tmp_path: Path, shape: Shape) -> None:
    path = journal_path(tmp_path, "large")
    make_large_journal(path, ACTIVATIONS, shape=shape, size=CHARACTERS)
    result = asyncio.run(resumed(tmp_path))
    assert result.outcome == "success"
    with Journal.read(path) as journal:
        finished = [event.activation for _, event in journal.events(Finished)]
    assert len(finished) == len(set(finished)) > ACTIVATIONS, "the rest was done, and nothing twice"


async def resumed(home: Path) -> RunResult:
    """How a run ends that goes on."""
    async with go_on("large", workspace=home, model=answering(CHARACTERS)) as going:
        return await going.result()


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("act", ["log", "show", "resume"])
def test_what_reading_costs_grows_with_the_journal_and_no_faster(tmp_path: Path, capsys: pytest.CaptureFixture[str], act: str,
                                                                 shape: Shape) -> None:
    """Counted in calls of functions, which no other process changes; seconds are rows of `benchmarks/worst.py`."""
    calls = []
    for activations in (100, 300, 600, 1200):
        home = tmp_path / str(activations)
        make_large_journal(journal_path(home, "large"), activations, shape=shape, size=100)
        read = (lambda home=home: asyncio.run(opened(home))) if act == "resume" else \
            (lambda home=home: command([act, "large", "--workspace", str(home)]))
        calls.append(calls_in(read))
    _, one, two, three = calls                                  # the first one loads what is loaded once
    assert one < two < three
    assert 1.6 < (three - two) / (two - one) < 2.4, calls    # a square would make it 4


async def opened(home: Path) -> None:
    """A resume up to its first new event."""
    async with go_on("large", workspace=home, model=answering(100)) as going:
        async with going.bus.events(Fired, Reserved, RunEnded) as news:
            await news.get()
        going.stop()
        await going.result()


def calls_in(read: Callable[[], object]) -> int:
    """How many functions are called while that is done, of Python and of C, in this thread."""
    count = 0

    def counting(_frame: object, event: str, _of: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        read()
    finally:
        sys.setprofile(None)
    return count
