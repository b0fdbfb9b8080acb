"""A journal of five thousand activations: memory stays flat while it is written, and a resume is at work within seconds."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from large_journal import Shape, answering, make_large_journal

from metaflow_agents.journal.journal import Journal
from metaflow_agents.opening import journal_path
from metaflow_agents.runs import go_on
from metaflow_agents.schema.event import Finished, Fired, Reserved, RunEnded
from metaflow_agents.underway import RunResult

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


@pytest.mark.alone
@pytest.mark.parametrize("shape", SHAPES)
def test_a_resume_is_at_work_within_five_seconds(tmp_path: Path, shape: Shape) -> None:
    """From opening the journal to the first new firing or call, at five thousand finished activations."""
    path = journal_path(tmp_path, "large")
    make_large_journal(path, ACTIVATIONS, shape=shape, size=CHARACTERS)
    elapsed, result = asyncio.run(resumed(tmp_path))
    assert elapsed < 5
    assert result.outcome == "success"
    with Journal.read(path) as journal:
        finished = [event.activation for _, event in journal.events(Finished)]
    assert len(finished) == len(set(finished)) > ACTIVATIONS, "the rest was done, and nothing twice"


async def resumed(home: Path) -> tuple[float, RunResult]:
    """Seconds to the first new event of a run that goes on, and how it ended."""
    began = time.monotonic()
    async with go_on("large", workspace=home, model=answering(CHARACTERS)) as going:
        assert going.journal.state.activations >= ACTIVATIONS
        async with going.bus.events(Fired, Reserved, RunEnded) as news:
            await news.get()
        return time.monotonic() - began, await going.result()
