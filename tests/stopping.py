"""A run that is stopped at each of its model calls in turn and gone on with: it ends as the run that nobody stopped."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiers
from scripted import events, tree
from tiers import ALL

from metaflow_agents.api.run import go_on, start
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.runtime.handle import Run, RunResult
from metaflow_agents.schema.event import Settled

NAME = "run"
Model = Callable[[ModelRequest], Any]


@dataclass(frozen=True, slots=True)
class Whole:
    """The run that nobody stopped. `keys`: of its calls, in the order in which they were asked. `stops`: numbers of the calls at
    which others were stopped.
    """

    result: RunResult
    keys: list[str]
    stops: list[int]


class _Asked:
    """Hands calls on to a model and keeps their keys; from the `at`-th on (from 1) it stops its run in place of answering.

    What is stopped in a call has reserved it and has no reply, as after a kill.
    """

    def __init__(self, model: Model, at: int | None = None) -> None:
        self.model, self.at, self.keys = model, at, list[str]()
        self.stop: Callable[[], None] = lambda: None

    async def __call__(self, request: ModelRequest) -> Any:
        self.keys.append(request.key)
        await asyncio.sleep(0)
        if self.at is not None and len(self.keys) >= self.at:
            self.stop()
            await asyncio.Event().wait()
        answer = self.model(request)
        return await answer if inspect.isawaitable(answer) else answer


async def stopped_everywhere(sop: Path, model: Callable[[], Model], folder: Path, *, same_calls: bool = True,
                             **given: Any) -> Whole:
    """The run that nobody stops; raises AssertionError where stopping it at one of its calls makes a difference.

    Compared are outcome, reason, outputs, labels and the files of the run's folder; no finished call may be asked again, and
    the calls of both parts are those of the whole. `model` makes a model anew for each part of each run: it has to say the same
    to the same prompts. `given`: inputs and options of `start`. The runs are named `NAME`, in `folder/whole`, `folder/stopped1`,
    …: each has a place of its own. Without `same_calls` other calls may be asked: what is done side by side may come in
    another order.
    """
    asked, place = _Asked(model()), folder / "whole"
    whole = await _driven(start(sop, model=asked, workspace=place, name=NAME, sandbox="none", **given), asked)
    keys = asked.keys
    assert keys and len(set(keys)) == len(keys), f"calls with the same key: {sorted(keys)}"
    stops = _some_of(len(keys), sop.stem)
    for at in stops:
        left, again, home = _Asked(model(), at), _Asked(model()), folder / f"stopped{at}"
        cut = await _driven(start(sop, model=left, workspace=home, name=NAME, sandbox="none", **given), left)
        if len(left.keys) < at and not same_calls:
            assert _made(home, cut) == _made(place, whole), at
            continue                    # this time there were fewer of them
        assert cut.outcome == "interrupted", (at, cut)
        before = _finished(home)
        result = await _driven(go_on(NAME, model=again, workspace=home, sandbox="none"), again)
        told = f"stopped at call {at}, {left.keys[at - 1]}"
        assert _made(home, result) == _made(place, whole), told
        assert not set(before) & set(again.keys), f"{told}: asked again {sorted(set(before) & set(again.keys))}"
        assert len(before) < len(keys) or not same_calls, told
        assert sorted([*before, *again.keys]) == sorted(keys) or not same_calls, (told, before, again.keys)
        assert sorted(_finished(home)) == sorted([*before, *again.keys]), told
    return Whole(whole, keys, stops)


def _some_of(calls: int, what: str) -> list[int]:
    """All calls in the full tier; else the first, the last and one between. Prefixes of each scene show the rest."""
    return [*range(1, calls + 1)] if ALL else sorted({1, tiers.chance(what).randint(1, calls), calls})


async def _driven(run: Run, model: _Asked) -> RunResult:
    model.stop = run.stop
    async with run as going:
        return await going.result()


def _finished(home: Path) -> list[str]:
    """The calls that have a reply."""
    return [event.key for event in events(home, NAME, Settled) if event.reply is not None]


def _made(home: Path, result: RunResult) -> dict[str, Any]:
    return {"outcome": result.outcome, "reason": result.reason, "outputs": dict(result.outputs),
            "untrusted": dict(result.untrusted), "folder": tree(home / NAME)}
