"""A run that is stopped at each of its model calls in turn, and gone on with: the same result, no finished call asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metaflow_agents import resume, run, start
from metaflow_agents.models.port import ModelRequest

Answer = Callable[[ModelRequest], Any]


class Asked:
    """A model that keeps the keys of its calls, and at one of them (counted from 1) does not answer but calls `stop`."""

    def __init__(self, answer: Answer, at: int = 0) -> None:
        self.answer, self.at, self.keys = answer, at, list[str]()
        self.stop: Callable[[], None] = lambda: None

    async def __call__(self, request: ModelRequest) -> Any:
        self.keys.append(request.key)
        if len(self.keys) == self.at:
            self.stop()
            await asyncio.sleep(3600)
        return self.answer(request)


async def stopped_at_every_call(sop: Path, workspace: Path, answer: Answer, **options: Any) -> list[str]:
    """Fails where a stop changes something. The model has to say the same to the same prompts. The keys of the calls."""
    whole = Asked(answer)
    wanted = await run(sop, model=whole, workspace=workspace, name="whole", **options)
    for at in range(1, len(whole.keys) + 1):
        name, model = f"stopped-{at}", Asked(answer, at)
        async with start(sop, model=model, workspace=workspace, name=name, **options) as going:
            model.stop = going.stop
            assert (await going.result()).outcome == "interrupted"
        after = Asked(answer)
        result = await resume(name, model=after, workspace=workspace)
        assert (result.outcome, result.reason, dict(result.outputs)) == (wanted.outcome, wanted.reason, dict(wanted.outputs)), at
        assert model.keys == whole.keys[:at] and after.keys == whole.keys[at - 1:], f"stopped at call {at}"
    return whole.keys
