"""Attempts at one activation of a firing: asked for, timed out, tried again, taken over from an earlier run.

Also what an activation depends on: `parts` by name, and of an item the digest by which it is reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, cast

from metaflow_agents.engine.clock import TimeCaps
from metaflow_agents.engine.failing import failed_attempt, failure_event
from metaflow_agents.engine.halting import Halting
from metaflow_agents.engine.labels import Labels
from metaflow_agents.engine.scope import Scopes, part
from metaflow_agents.engine.suspension import Parking
from metaflow_agents.engine.work import Activation, Earlier, Item, Recalled, StepRunner, Taken, Work
from metaflow_agents.errors import AttemptFailed, Halted, ModelMissing, PromptChanged, RunError, StepFailed, Stuck
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import Firing, RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING, evaluate, render_pattern
from metaflow_agents.prompts.names import free_names
from metaflow_agents.schema.event import Finished
from metaflow_agents.schema.keys import ActivationKey
from metaflow_agents.schema.model import digest, fingerprint
from metaflow_agents.schema.payload import Binary, Data, Held, Patch, pack, stored, unpack
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.strategies import Specs
from metaflow_agents.schema.trust import joined
from metaflow_agents.sop.graph import artifact_of, reads
from metaflow_agents.sop.naming import runs_commands
from metaflow_agents.threads.stopwatch import timed

Outcome = tuple[Finished, dict[str, bytes], Held]
"""An activation that worked: its event (not yet journalled), the blobs that it names, and its payload."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What holds activations up, or ends them: caps on time, questions to people, the end of a run."""

    caps: TimeCaps = field(default_factory=lambda: TimeCaps({}))
    parking: Parking = field(default_factory=Parking)
    halting: Halting = field(default_factory=Halting)


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What carrying out firings takes; the same for all firings of a run."""

    sop: SOP
    bus: Bus
    state: RunState
    values: Values
    scopes: Scopes
    runner: StepRunner
    earlier: Earlier | None
    holding: Holding
    labels: Labels
    recalled: Recalled
    strategies: Specs

    @property
    def caps(self) -> TimeCaps:
        """The caps on time of steps and roles."""
        return self.holding.caps

    @property
    def parking(self) -> Parking:
        """Where what waits for a person stands."""
        return self.holding.parking

    @property
    def halting(self) -> Halting:
        """What ends the run early."""
        return self.holding.halting


class Prior(Mapping[str, Any]):
    """What an item's transitive `after` items made, read when it is asked for."""

    def __init__(self, results: Mapping[str, str], view: Callable[[str], Any]) -> None:
        self._results, self._view = results, view

    def __getitem__(self, key: str) -> Any:
        return self._view(self._results[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


class Attempts:
    """The activations of one firing. `scope`, `base` and `bounds` are the same for all of them.

    `base` is the digest of the latest version of the artifact that the step makes, `bounds` are its rendered path
    patterns, `revises` says whether the step reads what it makes, `label` what of that came from outside the user.
    """

    def __init__(self, means: AttemptContext, step: Step, firing: Firing) -> None:
        self._means, self._step, self._firing = means, step, firing
        self.scope = means.scopes.of(step, firing.read, firing.round)
        self.base = means.state.payload(step.makes.artifact)
        self.bounds = tuple(render_pattern(pattern, self.scope) for pattern in means.sop.artifacts[step.makes.artifact].files)
        self.revises = step.makes.artifact in reads(step)
        self.label = means.labels.of(firing.step, firing.read)
        self._reads = self._read_parts()

    async def until_done(self, item: Item | None, prior: dict[str, str], heard: str = "") -> Outcome | None:
        """Tries until it works or the attempts are used up: None where the item is lost. `heard`: the label of `prior`.

        Raises Waiting where the attempt under way needs an answer first: it is the same attempt when this is called again. What
        stops the run is raised once the calls of others that were sent are answered.
        """
        try:
            return await self._until_done(item, prior, heard)
        except (StepFailed, PromptChanged, ModelMissing):
            await self._means.halting.settle()
            raise

    async def _until_done(self, item: Item | None, prior: dict[str, str], heard: str) -> Outcome | None:
        key = None if item is None else item.key
        slot = self._firing.slot(key)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            attempt = ActivationKey(self._firing.step, self._firing.round, key, slot.attempts)
            started = loop.time()
            untrusted = joined(self.label.lifted, heard)
            try:
                activation = self._labelled(self._activation(attempt, item, prior), heard)
                untrusted = activation.untrusted
                parts = {**self._parts(item, prior), **self._means.runner.parts(activation), **_trust(activation)}
                found = self._means.earlier.find(attempt, parts) if self._means.earlier and not slot.attempts else ()
                if isinstance(found, Taken):
                    return await self._taken(activation, parts, found, self.digest(item, prior))
                work = await self._work(activation)
                blobs = dict(work.blobs)
                name = stored(work.payload, blobs)
                return Finished(at=time(), activation=str(attempt), payload=name, digest=self.digest(item, prior), parts=parts,
                                memory=work.memory, besides=work.besides, why=found, seconds=loop.time() - started,
                                untrusted=self._of_work(activation, work), assumed=work.assumed), blobs, work.payload
            except BaseException as raised:
                failure = failed_attempt(raised, task)
            # Outside of the handler: what fails here is another matter than what went wrong in the attempt.
            await self._failed(attempt, failure, loop.time() - started, untrusted)
            if key in self._firing.lost:
                return None

    def _labelled(self, activation: Activation, heard: str) -> Activation:
        if not (self._means.state.outside or heard):
            return activation
        walk = self._step.foreach
        own = dict.fromkeys(("item", "key", walk.as_), self.label.listed) if walk is not None else {}
        labels = {**self.label.each, **own, "prior": heard, "run": self.label.inputs}
        heard = joined(heard, self._means.recalled(activation))
        return replace(activation, untrusted=joined(self.label.lifted, heard), unlifted=joined(self.label.whole, heard),
                       inputs=self.label.inputs, labels={name: label for name, label in labels.items() if label})

    def _of_work(self, activation: Activation, work: Work) -> str:
        if self._means.labels.lifts(self._firing.step):
            return ""
        return activation.untrusted if work.untrusted is None else joined(work.untrusted)

    async def _work(self, activation: Activation) -> Work:
        if not self._means.caps.any:
            return await self._in_time(activation)
        step = self._step
        who = step.role if step.role is None or step.role in self._means.sop.roles else evaluate(step.role, activation.scope)
        async with self._means.caps.within([f"step:{activation.key.step}", f"role:{who}"]):
            return await self._in_time(activation)

    async def _in_time(self, activation: Activation) -> Work:
        """The work, within the step's `timeout`, of which no wait is a part before a call of it may be sent."""
        timeout, limit = self._step.timeout, None
        try:
            async with timed(timeout) as limit:
                return await self._means.runner.work(activation)
        except TimeoutError:
            if limit is None or not limit.expired():
                raise
            raise AttemptFailed(f"timed out after {timeout:g} s") from None

    async def _failed(self, key: ActivationKey, failure: RunError, seconds: float, untrusted: str) -> None:
        slot = self._firing.slot(key.item)
        final = isinstance(failure, Stuck) or slot.series >= self._step.retries
        halted = isinstance(failure, Halted)
        stops = halted or (final and self._step.on_fail.action == "stop")
        failed = failure_event(failure, key, untrusted, final=final, stops=stops, seconds=seconds)
        await self._means.bus.publish(failed)
        if stops:
            raise StepFailed(str(key), failed.error, halted=halted)

    async def _taken(self, activation: Activation, parts: dict[str, str], taken: Taken,
                     own: str) -> Outcome:
        held = cast("Data | Binary | Patch", unpack(taken.blobs[taken.payload]))        # as every activation gives
        work = await self._means.runner.taken_over(activation, Work(held, taken.blobs))
        cast("Earlier", self._means.earlier).use(taken, activation.key)
        packed = taken.blobs[taken.payload] if work.payload == held else pack(work.payload)
        name = digest(packed)
        blobs = {**work.blobs, name: packed}
        finished = Finished(activation=str(activation.key), payload=name, digest=own, parts=parts, memory=taken.memory,
                            besides=taken.besides, reused_from=taken.source, untrusted=taken.untrusted, effects=taken.effects)
        return finished, blobs, work.payload

    def _activation(self, key: ActivationKey, item: Item | None, prior: dict[str, str]) -> Activation:
        scope: dict[str, Any] = {**self.scope, "prior": Prior(prior, self._means.values.view)}
        if item is not None and self._step.foreach is not None:
            scope.update({"item": item.value, self._step.foreach.as_: item.value, "key": item.key})
        patterns = tuple(render_pattern(pattern, scope) for pattern in self._step.makes.patterns) or self.bounds

        def patches() -> tuple[Patch, ...]:
            found = (self._means.values.payload(payload) for payload in prior.values())
            return tuple(payload for payload in found if isinstance(payload, Patch))

        return Activation(key, self._firing.read, scope, item, patches, patterns, self.bounds, self.base)

    def _read_parts(self) -> dict[str, str]:
        """What every item's digest covers: needs and wants, but for those that the list itself is made of."""
        step = self._step
        walked = free_names(step.foreach.in_) if step.foreach is not None else frozenset()
        parts: dict[str, str] = {}
        for kind, entries in (("need", step.needs), ("want", step.wants)):
            for entry in entries:
                artifact = artifact_of(entry)
                if entry == artifact and artifact not in walked:
                    parts[f"{kind}:{entry}"] = self._seen(artifact)
                elif entry != artifact:
                    value = part(self.scope.get(artifact, MISSING), entry.split(".")[1:])
                    parts[f"{kind}:{entry}"] = "" if value is MISSING else fingerprint(value)
        if self.revises:
            # What a reviser betters counts, or a fault that is told in the same words again would never be mended again.
            parts[f"revises:{step.makes.artifact}"] = self._seen(step.makes.artifact)
        return parts

    def _seen(self, artifact: str) -> str:
        """The content of the version that was read; empty where it was missing."""
        number = self._firing.read.get(artifact, 0)
        payload = (self._means.state.payload(artifact, number) or "") if number else ""
        spec = self._means.sop.artifacts.get(artifact)
        if payload and spec is not None and spec.documents and not runs_commands(self._step, self._means.strategies):
            payload = self._means.values.without_documents(payload)         # they lie in the trees of commands alone
        return payload[:32]

    def _parts(self, item: Item | None, prior: Mapping[str, str]) -> dict[str, str]:
        """What a result depends on, as far as the engine sees: for `--from`, where `sees` counts too."""
        parts = dict(self._reads)
        for entry in self._step.sees:
            parts[f"sees:{entry}"] = self._seen(artifact_of(entry))
        if item is not None:
            parts["item"] = fingerprint(item.value)
        parts.update((f"after:{key}", payload[:32]) for key, payload in prior.items())
        return parts

    def digest(self, item: Item | None, prior: Mapping[str, str]) -> str:
        """By which an item is reused when its step fires again."""
        if item is None:
            return ""
        return fingerprint([item.value, self._reads, dict(prior)])


def _trust(activation: Activation) -> dict[str, str]:
    """What an activation may do depends on whom it heard: a result is taken over from one that heard the same."""
    heard = {"untrusted": activation.untrusted, "unlifted": activation.unlifted}
    return {name: fingerprint(label) for name, label in heard.items() if label}
