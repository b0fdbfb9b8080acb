"""A run that is stopped in the middle of its k-th model call and gone on with: for every k, the same result.

What is stopped in a call has reserved it and has no reply, as after a kill; every call before it is finished, and must not be
asked again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from metaflow_agents.models.port import ModelRequest
from metaflow_agents.runs import Run, RunResult, go_on, start

Model = Callable[[ModelRequest], Awaitable[Any]]


class Stopping:
    """Hands calls on to a model; at the `at`-th one it stops its run, and never answers."""

    def __init__(self, model: Model, at: int, finished: list[str]) -> None:
        self.model, self.at, self.finished, self.run = model, at, finished, None
        self.asked = 0

    run: Run | None

    async def __call__(self, request: ModelRequest) -> Any:
        self.asked += 1
        if self.asked == self.at and self.run is not None:
            self.run.stop()
            await asyncio.Event().wait()
        answer = await self.model(request)
        self.finished.append(request.key)
        return answer


async def _drive(run: Run, model: Stopping) -> RunResult:
    model.run = run
    async with run as going:
        return await going.result()


async def stopped_everywhere(sop: Path, model: Callable[[], Model], folder: Path, *, same_calls: bool = True,
                             **given: Any) -> RunResult:
    """The result of the run that nobody stops; raises AssertionError where stopping it at any call makes a difference.

    `model` makes a model anew for each run. Runs lie in `folder`. Without `same_calls` only the result has to be the same, and no
    finished call may be asked twice: what is done beside each other may be done in another order.
    """
    first: list[str] = []
    whole = await _drive(*_started(sop, Stopping(model(), 0, first), folder, "whole", given))
    assert first and len(set(first)) == len(first), f"calls asked twice: {Counter(first).most_common(3)}"
    for at in range(1, len(first) + 1):
        finished: list[str] = []
        asks, name = model(), f"stopped{at}"
        cut = await _drive(*_started(sop, Stopping(asks, at, finished), folder, name, given))
        assert cut.outcome == "interrupted", (at, cut)
        again = Stopping(asks, 0, finished)
        result = await _drive(go_on(name, model=again, workspace=folder, sandbox="none"), again)
        assert (result.outcome, dict(result.outputs), dict(result.untrusted)) == (
            whole.outcome, dict(whole.outputs), dict(whole.untrusted)), (at, result, whole)
        assert len(set(finished)) == len(finished), (at, Counter(finished).most_common(3))
        more, fewer = Counter(finished) - Counter(first), Counter(first) - Counter(finished)
        assert not same_calls or not (more or fewer), (at, more, fewer)
    return whole


def _started(sop: Path, model: Stopping, folder: Path, name: str, given: dict[str, Any]) -> tuple[Run, Stopping]:
    return start(sop, model=model, workspace=folder, name=name, sandbox="none", **given), model
