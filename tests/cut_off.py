"""A run stopped at each of its model calls in turn and gone on with: what every strategy is held to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripted import events

from metaflow_agents import resume, run, start
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Observed, Settled


class Cutting:
    """A model that computes its answers, and from its call number `cut` on has the run stopped in place of answering."""

    def __init__(self, answer: Callable[[ModelRequest], Any]) -> None:
        self.answer, self.asked = answer, list[str]()
        self.cut, self.stop = 10**9, lambda: None

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked.append(request.key)
        await asyncio.sleep(0)
        if len(self.asked) > self.cut:
            self.stop()
            await asyncio.sleep(60)
        return self.answer(request)

    def until(self, cut: int, stop: Callable[[], None] = lambda: None) -> None:
        self.asked, self.cut, self.stop = [], cut, stop


async def same_after_every_cut(path: Path, folder: Path, answer: Callable[[ModelRequest], Any], **inputs: Any) -> int:
    """Runs a SOP whole, then once for each of its calls, cut off in the midst of that call and resumed.

    Fails where a resumed run makes anything else, or asks again what was answered. Gives the number of calls.
    """
    model = Cutting(answer)
    whole = await run(path, **inputs, model=model, workspace=folder, name="whole", sandbox="none")
    assert whole.ok, whole.reason
    everything = set(model.asked)
    assert len(everything) == len(model.asked), "no two calls have the same key"
    for cut in range(len(everything)):
        name = f"cut-{cut}"
        async with start(path, inputs=inputs, model=model, workspace=folder, name=name, sandbox="none") as going:
            model.until(cut, going.stop)
            await going.result()
        answered = {event.key for event in events(folder, name, Settled) if event.reply is not None}
        model.until(10**9)
        result = await resume(name, workspace=folder, model=model, sandbox="none")
        assert result.outputs == whole.outputs, f"cut at call {cut}: {result.reason}"
        assert answered.isdisjoint(model.asked), f"asked again: {sorted(answered & set(model.asked))}"
        assert answered | set(model.asked) == everything and len(answered) < len(everything)
    return len(everything)


def noted(folder: Path, run: str, ending: str) -> list[Any]:
    """What a strategy put into the journal of how it decided, in the order of the events."""
    with Journal.read(folder / ".journals" / f"{run}.db") as journal:
        return [json.loads(journal.blob(event.payload))["value"] for _, event in journal.events(Observed)
                if event.key.endswith(ending)]
