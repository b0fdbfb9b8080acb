"""`progress:`: every so many model calls a role looks at the run as a whole, and lets it go on, replans it or stops it.

A look is a firing of its own, `progress@2`, with a journalled beginning and end like any other, so that a resume finds it where
it was. It reads every artifact as it then stands, and holds nothing up. What is not determined is when in the order of parallel
work it falls; it is in the journal once it has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Literal, Protocol

from metaflow_agents.engine.failing import failed_attempt, failure_event
from metaflow_agents.engine.scope import Scopes
from metaflow_agents.engine.work import Activation
from metaflow_agents.errors import AttemptFailed, StepFailed
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import Firing, RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.event import Committed, Finished, Fired, Version
from metaflow_agents.schema.keys import LOOK, ActivationKey
from metaflow_agents.schema.payload import Data, stored
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.sop import Progress as Spec
from metaflow_agents.schema.trust import joined
from metaflow_agents.sop.graph import triggers


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the role says of the run. `untrusted`: the label of its words."""

    action: Literal["continue", "replan", "stop"]
    why: str
    untrusted: str = ""


class Judge(Protocol):
    """Looks at a run."""

    async def judged(self, activation: Activation, *, replan: bool) -> Judgement:
        """Its word; `replan` says whether that may still be chosen. Raises AnswerInvalid, AttemptFailed."""
        ...


class RunProgress:
    """The looks at one run."""

    def __init__(self, sop: SOP, spec: Spec, bus: Bus, state: RunState, values: Values, scopes: Scopes, judge: Judge) -> None:
        self._sop, self._spec, self._bus, self._state = sop, spec, bus, state
        self._values, self._scopes, self._judge = values, scopes, judge

    @property
    def due(self) -> bool:
        """Whether as many calls were answered as the next look waits for; those of looks don't count.

        Not while its last advice is being taken up: it would see the old plan, and replan that once more.
        """
        return self._state.replies // self._spec.every > self._state.fired.get(LOOK, 0) and not self._advised

    @property
    def _advised(self) -> bool:
        """Whether a step has still to plan anew."""
        made = self._spec.makes
        if made is None or not self._state.version(made):
            return False
        under_way = {firing.step for firing in self._state.active.values()}
        return any(name in under_way or self._state.cursor.get(name, {}).get(made, 0) < self._state.version(made)
                   for name, step in self._sop.steps.items() if made in triggers(step)
                   and (name in under_way or step.rounds is None or self._state.fired.get(name, 0) < step.rounds))

    def fired(self) -> Fired:
        """The beginning of the next look."""
        read = {name: self._state.version(name) for name in (*self._sop.inputs, *self._sop.artifacts)}
        return Fired(at=time(), step=LOOK, round=self._state.fired.get(LOOK, 0) + 1, read=read)

    async def run(self, firing: Firing) -> None:
        """Looks, and ends the firing. Raises StepFailed where the run is stopped, or the role gives no verdict."""
        key = ActivationKey(LOOK, firing.round, None, firing.slot(None).attempts)
        label = joined(*(self._state.untrusted(name, number) for name, number in firing.read.items() if number))
        activation = Activation(key, firing.read, self._scope(firing.read, firing.round), untrusted=label, unlifted=label)
        try:
            said = await self._judge.judged(activation, replan=self._may_replan)
            label = joined(label, said.untrusted)
            if said.action == "stop":
                raise AttemptFailed(f"`{self._spec.role}` stops the run: {said.why}")
        except BaseException as raised:
            failed = failure_event(failed_attempt(raised, asyncio.current_task()), key, label, stops=True)
            await self._bus.publish(failed)
            raise StepFailed(str(key), failed.error) from raised
        blobs: dict[str, bytes] = {}
        decided = stored(Data(value={"action": said.action, "why": said.why}), blobs)
        versions: tuple[Version, ...] = ()
        if said.action == "replan" and self._spec.makes is not None:
            versions = (Version(artifact=self._spec.makes, number=self._state.version(self._spec.makes) + 1,
                                payload=stored(Data(value=said.why), blobs), untrusted=label),)
        self._bus.post(Finished(at=time(), activation=str(key), payload=decided, untrusted=label),
                       Committed(at=time(), firing=firing.key, versions=versions), blobs=blobs)

    @property
    def _may_replan(self) -> bool:
        return self._spec.makes is not None and self._state.version(self._spec.makes) < self._spec.replans

    def _scope(self, read: Mapping[str, int], round_: int) -> dict[str, Any]:
        def history(name: str) -> list[Any]:
            return [self._values.at(name, number + 1) for number in range(read.get(name, 0))]

        found = {name: self._values.at(name, number) for name, number in read.items()}
        return {**found, "round": round_, "run": self._scopes.run_facts(), "history": history}
