"""A `timeout` is of what was sent: waits for room in the budget, for `limits` and for a busy endpoint are no part of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from scripted import write
from virtual_time import simulated

from metaflow_agents import run
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest, Reply, Traits
from metaflow_agents.threads.stopwatch import timed, under_way, waits

ROWS = """
    sop: rows
    inputs: {names: [string]}
    LIMITS
    roles: {clerk: {profile: You write.}}
    artifacts: {letters: {each: string}}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters, timeout: 15s}
    BUDGET
"""


class Slow:
    """A model of which each call takes ten seconds, or what `seconds` says of its key."""

    name = "slow"

    def __init__(self, url: str | None = "http://slow", **seconds: float) -> None:
        self.traits, self.seconds, self.busy = Traits(endpoint=url), seconds, 0
        self.sent: list[str] = []

    def worst(self, request: ModelRequest) -> tuple[int, int]:
        return 1000, 0

    async def ask(self, request: ModelRequest) -> Reply:
        name = request.key.partition("[")[2].partition("]")[0]
        self.sent.append(name)
        if self.busy:
            self.busy -= 1
            raise CallFailed("429", then="again", charged=0, refused=True, busy=True, after=60.0)
        await asyncio.sleep(self.seconds.get(name, 10))
        return Reply("fine", tokens_in=100)


def ran(folder: Path, model: Any, *, limits: str = "", budget: str = "", names: tuple[str, ...] = tuple("abcde")) -> Any:
    text = ROWS.replace("LIMITS", f"limits: {limits}" if limits else "").replace("BUDGET", f"budget: {budget}" if budget else "")
    return simulated(run(write(folder, text), names=list(names), model=model, workspace=None))


def test_waiting_for_room_in_the_budget_is_no_part_of_a_timeout(tmp_path: Path) -> None:
    """One call has room at a time, and the fifth is sent after 40 s."""
    model = Slow()
    result = ran(tmp_path, model, budget="{tokens: 1500}")
    assert result.ok, result.reason
    assert model.sent == list("abcde")


def test_waiting_for_a_limit_is_no_part_of_a_timeout(tmp_path: Path) -> None:
    model = Slow("http://limited")
    assert ran(tmp_path, model, limits="{concurrency: 1}").ok and len(model.sent) == 5


def test_the_pause_that_a_busy_endpoint_asks_for_is_no_part_of_a_timeout(tmp_path: Path) -> None:
    model = Slow(None)              # without an endpoint: the queues of endpoints go by the true time
    model.busy = 1
    assert ran(tmp_path, model, names=("a",)).ok and model.sent == ["a", "a"]


def test_a_call_that_was_sent_is_timed_out(tmp_path: Path) -> None:
    model = Slow(c=16)
    result = ran(tmp_path, model, budget="{tokens: 1500}")
    assert result.outcome == "stopped" and "timed out after 15 s" in result.reason and model.sent == ["a", "b", "c"]


def test_the_time_of_a_step_that_is_a_sop_stands_still_with_all_that_is_in_it(tmp_path: Path) -> None:
    inner = ROWS.replace("LIMITS", "").replace("BUDGET", "outputs: [letters]").replace(", timeout: 15s", "")
    write(tmp_path, inner).rename(tmp_path / "inner.yaml")
    path = write(tmp_path, """
        sop: outer
        inputs: {names: [string]}
        roles: {clerk: {profile: You write.}}
        artifacts: {first: {}, made: {schema: any}}
        steps:
          hold: {role: clerk, needs: [names], makes: first, priority: 1}
          go: {sop: inner.yaml, needs: [names], inputs: {names: names}, makes: made, timeout: 35s}
        budget: {tokens: 1500}
        """)

    class Holding(Slow):
        async def ask(self, request: ModelRequest) -> Reply:
            if request.step == "hold":
                await asyncio.sleep(600)
            return await super().ask(request)

    result = simulated(run(path, names=["a", "b", "c"], model=Holding(), workspace=None))
    assert result.ok, result.reason


async def _spent(seconds: float, *, waiting: float, beside: float = 0.0) -> bool:
    """Whether an attempt that waits so long, with a call under way beside it for so long, and then works 5 s, is out of time."""
    async def wait() -> None:
        with waits():
            await asyncio.sleep(waiting)

    async def call() -> None:
        with under_way():
            await asyncio.sleep(beside)

    try:
        async with timed(seconds), asyncio.TaskGroup() as group:
            group.create_task(wait())
            group.create_task(call())
            await asyncio.sleep(0)
            await asyncio.sleep(max(waiting, beside) + 5)
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize(("waiting", "beside", "out"), [(100, 0, False), (100, 4, False), (100, 11, True), (4, 0, False)])
def test_the_time_runs_while_anything_is_under_way(waiting: float, beside: float, out: bool) -> None:
    assert simulated(_spent(10, waiting=waiting, beside=beside)) is out


def test_an_inner_attempt_that_works_keeps_the_time_of_the_outer_one_running() -> None:
    async def inner(seconds: float, wait: bool) -> None:
        async with timed(None):
            if wait:
                with waits():
                    await asyncio.sleep(seconds)
            else:
                await asyncio.sleep(seconds)

    async def outer(*parts: tuple[float, bool]) -> bool:
        try:
            async with timed(10), asyncio.TaskGroup() as group:
                for seconds, wait in parts:
                    group.create_task(inner(seconds, wait))
        except TimeoutError:
            return True
        return False

    assert simulated(outer((100, True), (9, False))) is False
    assert simulated(outer((100, True), (11, False))) is True
    assert simulated(outer((100, True), (200, True), (3, False))) is False
