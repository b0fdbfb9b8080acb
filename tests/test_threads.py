from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from metaflow_agents.threads.blocking import Threads


async def test_results_errors_and_context_come_through() -> None:
    threads = Threads(2, "t")
    place: ContextVar[str] = ContextVar("place")
    place.set("here")
    assert await threads.run(place.get) == "here"

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await threads.run(fail)


async def test_a_cancelled_await_outlives_its_thread_however_often_it_is_cancelled() -> None:
    ended, begun, asked = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        time.sleep(0.2)
        ended.set()

    task = asyncio.create_task(Threads(1, "t").run(work, lambda: asked.append(1)))
    assert await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert asked == [1]


async def test_what_has_not_begun_never_runs() -> None:
    threads, free, ran = Threads(1, "t"), threading.Event(), []
    first = asyncio.create_task(threads.run(free.wait))
    second = asyncio.create_task(threads.run(lambda: ran.append(1)))
    await asyncio.sleep(0.05)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    free.set()
    await first
    await threads.run(lambda: None)
    assert ran == []


async def test_a_timeout_around_it_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await Threads(1, "t").run(lambda: time.sleep(0.1))


async def test_a_stop_iteration_in_a_thread_is_told_and_nobody_waits_for_ever() -> None:
    """What `next()` of an exhausted iterator raises: a future can't carry it."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(Threads(1, "t").run(lambda: next(iter(()))), 60)
