"""Calls that a strategy makes side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from metaflow_agents.errors import BudgetExceeded, Waiting, raise_first

T = TypeVar("T")


async def at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    """What calls made side by side give, in their own order.

    One that has to wait for a person, or has met a cap, holds up none of the others: they come to their end, what they gave is
    in the journal, and then all questions are waited for together (Waiting). Any other failure ends them all.
    """
    async def one(call: Awaitable[T]) -> T | Waiting | BudgetExceeded:
        try:
            return await call
        except (Waiting, BudgetExceeded) as later:
            return later

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call)) for call in calls]
    ended = [task.result() for task in tasks]
    raise_first(found for found in ended if isinstance(found, Waiting | BudgetExceeded))
    return [found for found in ended if not isinstance(found, Waiting | BudgetExceeded)]
