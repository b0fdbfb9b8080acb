"""A run that is stopped at each of its model calls, and taken up again: it comes to what it comes to without that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripted import Scripted, events

from metaflow_agents import run
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.runs import resume, start
from metaflow_agents.schema.event import Settled


async def stopped_everywhere(path: Path, model: Callable[[], Scripted], inputs: Mapping[str, Any], output: str) -> None:
    """The run as it is without a stop, and stopped at its first call, its second, and so on: the same output, the same calls,
    and none that was settled is asked again.
    """
    whole = model()
    wanted = (await run(path, **inputs, model=Left(whole), workspace=path.parent / "whole", name="r"))[output]
    assert len(whole.keys) == len(set(whole.keys)) > 5
    for number in range(1, len(whole.keys) + 1):
        left, again, place = Left(model(), number), model(), path.parent / str(number)
        async with start(path, **inputs, model=left, workspace=place, name="r") as going:
            left.stop = going.stop
            assert not (await going.result()).ok
        settled = {event.key for event in events(place, "r", Settled)}
        result = await resume("r", model=Left(again), workspace=place)
        assert result.ok and result[output] == wanted, (number, result)
        assert not settled & set(again.keys), number
        assert settled | set(again.keys) == set(whole.keys), number


class Left:
    """A model whose run is stopped when it is asked for the nth time; the calls under way then are cut off."""

    def __init__(self, model: Scripted, number: int | None = None) -> None:
        self.model, self.number, self.calls = model, number, 0
        self.stop: Callable[[], Any] = lambda: None

    async def __call__(self, request: ModelRequest) -> Any:
        self.calls += 1
        if self.number is not None and self.calls >= self.number:
            self.stop()
            await asyncio.sleep(60)
        return await self.model(request)
