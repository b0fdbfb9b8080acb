"""A run that is stopped before each of its model calls in turn and gone on with: it ends as the one that nobody stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripted import events

from metaflow_agents.models.port import ModelRequest
from metaflow_agents.runs import go_on, start
from metaflow_agents.schema.event import Settled

Answer = Callable[[ModelRequest], Any]


class _Model:
    """Answers, and stops the run before a call: the same model by its name, whichever it is."""

    def __init__(self, answer: Answer, last: int | None = None) -> None:
        self.answer, self.last, self.asked, self.stop = answer, last, list[str](), lambda: None

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked.append(request.key)
        if self.last is not None and len(self.asked) > self.last:
            self.stop()
            await asyncio.Event().wait()
        return self.answer(request)


async def stopped_everywhere(path: Path, answer: Answer, folder: Path, **inputs: Any) -> int:
    """How many calls the run has. Asserts that outputs and outcome are equal, and that no finished call is asked twice."""
    async with start(path, model=_Model(answer), inputs=inputs, workspace=folder, name="whole") as going:
        whole = await going.result()
    keys = _answered(folder, "whole")
    for last in range(len(keys)):
        name, model = f"stopped{last}", _Model(answer, last)
        async with start(path, model=model, inputs=inputs, workspace=folder, name=name) as going:
            model.stop = going.stop
            assert (await going.result()).outcome == "interrupted"
        before, again = _answered(folder, name), _Model(answer)
        async with go_on(name, model=again, workspace=folder) as going:
            result = await going.result()
        assert (result.outcome, result.outputs) == (whole.outcome, whole.outputs), f"stopped before call {last}: {result.reason}"
        assert not set(before) & set(again.asked), f"stopped before call {last}: paid twice"
        assert sorted([*before, *again.asked]) == sorted(keys) == sorted(_answered(folder, name))
    return len(keys)


def _answered(folder: Path, name: str) -> list[str]:
    return [event.key for event in events(folder, name, Settled) if event.reply]
