"""Caps on time: parallel work of one scope shares a clock."""

from __future__ import annotations

import asyncio

import pytest

from metaflow_agents.engine.clock import TimeCaps
from metaflow_agents.errors import BudgetExceeded


async def test_a_scope_without_a_cap_is_not_looked_at() -> None:
    async with TimeCaps({"step:a": 0.001}).within(["step:b", "role:c"]):
        await asyncio.sleep(0.02)


async def test_the_cap_ends_the_body_and_is_named() -> None:
    caps = TimeCaps({"step:a": 0.05})
    with pytest.raises(BudgetExceeded, match=r"time budget of step a is used up: 0\.05 s"):
        async with caps.within(["step:a"]):
            await asyncio.sleep(10)
    with pytest.raises(BudgetExceeded):
        async with caps.within(["step:a"]):
            await asyncio.sleep(0)


@pytest.mark.one_in(4)
async def test_parallel_work_of_one_scope_counts_once() -> None:
    caps = TimeCaps({"role:a": 1.4})                    # each counted for itself would be 4 s

    async def work(seconds: float = 0.2) -> None:
        async with caps.within(["role:a"]):
            await asyncio.sleep(seconds)

    await asyncio.gather(*(work() for _ in range(20)))
    await work()
    with pytest.raises(BudgetExceeded):
        await work(1.2)                                 # it would fit, but for what was used before


async def test_who_comes_while_others_are_under_way_has_what_is_left() -> None:
    caps = TimeCaps({"role:a": 0.5})

    async def work(seconds: float) -> None:
        async with caps.within(["role:a"]):
            await asyncio.sleep(seconds)

    first = asyncio.create_task(work(0.3))
    await asyncio.sleep(0.1)
    with pytest.raises(BudgetExceeded):
        await work(0.45)                                # it would fit, but for the time in which the other one was alone
    await asyncio.wait([first])


async def test_what_was_used_before_counts() -> None:
    with pytest.raises(BudgetExceeded):
        async with TimeCaps({"step:a": 5.0}, {"step:a": 4.99}).within(["step:a"]):
            await asyncio.sleep(10)


async def test_the_tightest_of_several_caps_is_told() -> None:
    caps = TimeCaps({"step:a": 0.3, "role:b": 0.05})
    with pytest.raises(BudgetExceeded, match="role b"):
        async with caps.within(["step:a", "role:b"]):
            await asyncio.sleep(10)


async def test_a_timeout_of_the_body_is_its_own() -> None:
    with pytest.raises(TimeoutError, match="mine"):
        async with TimeCaps({"step:a": 5.0}).within(["step:a"]):
            raise TimeoutError("mine")
