"""The engine driven by the same work function as the reference interpreter, one completion at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from reference import Activation as Ran
from reference import Fails, Procedure, to_sop

from metaflow_agents.engine.scheduler import Scheduler
from metaflow_agents.engine.scope import Scopes, part
from metaflow_agents.engine.step_execution import Fanout
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed, StepFailed
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING, CollectionView, FilesView
from metaflow_agents.schema.event import Committed, Event, Fired, Resumed, RunEnded, RunOpened, Version
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data, Patch, pack
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph


def seen(value: Any) -> Any:
    """A value of the engine as the reference has it."""
    if value is MISSING:
        return None
    if isinstance(value, FilesView):
        return {"of": dict(sorted(value.items())), "missing": list(value.missing)}
    if isinstance(value, CollectionView):
        return {"of": [[key, inner] for key, inner in value.items()], "missing": list(value.missing)}
    return value


class Held:
    """A step runner whose activations wait until the test lets them end."""

    def __init__(self, procedure: Procedure, sop: SOP, values: Values) -> None:
        self.procedure, self.sop, self.values = procedure, sop, values
        self.running: dict[Ran, asyncio.Future[None]] = {}
        self.ran: list[Ran] = []

    def parts(self, activation: Activation) -> dict[str, str]:
        return {}

    async def taken_over(self, activation: Activation, work: Work) -> Work:
        return work

    async def work(self, activation: Activation) -> Work:
        key = activation.key
        ran = Ran(key.step, key.round, key.item, key.attempt)
        gate = self.running[ran] = asyncio.get_running_loop().create_future()
        self.ran.append(ran)
        try:
            await gate
        finally:
            del self.running[ran]
        step = self.sop.steps[key.step]
        reads = {}
        for entry in (*step.needs, *step.wants, *step.sees):
            artifact, *path = entry.split(".")
            reads[entry] = seen(part(self.values.at(artifact, activation.read[artifact]), path))
        prior = self._prior(activation)
        try:
            made = self.procedure.work(key.step, key.round, reads, None if activation.item is None else activation.item.value,
                                       key.item, prior, key.attempt)
        except Fails as failure:
            raise AttemptFailed(str(failure)) from None
        if self.procedure.kind(step.makes.artifact) != "files":
            return Work(Data(value=made))
        written = {path: text.encode() for path, text in made.items() if text is not None}
        deleted = tuple(sorted(path for path, text in made.items() if text is None))
        return Work(Patch(written={p: digest(d) for p, d in sorted(written.items())}, deleted=deleted),
                    {digest(d): d for d in written.values()})

    def _prior(self, activation: Activation) -> dict[str, Any]:
        """As the reference has it: for files also what an item deleted."""
        keys = sorted(activation.scope["prior"])
        patches = activation.patches()
        if not patches:
            return {key: seen(activation.scope["prior"][key]) for key in keys}
        return {key: {**{path: self.values.text(blob) for path, blob in patch.written.items()}, **dict.fromkeys(patch.deleted)}
                for key, patch in zip(keys, patches, strict=True)}


class Machine:
    """The real scheduler on a journal in memory, to be driven beside `Reference`.

    `program` stands in for that of the procedure, `held` is the class of the runner, `untrusted` labels what is given.
    """

    def __init__(self, procedure: Procedure, program: Program | None = None, held: type[Held] = Held,
                 untrusted: Mapping[str, str] | None = None, begun: Sequence[Event] = (),
                 blobs: Mapping[str, bytes] | None = None) -> None:
        self.procedure = procedure
        self._untrusted, self._begun, self._blobs = untrusted or {}, begun, blobs or {}
        program = program or Program(sop=SOP.model_validate(to_sop(procedure)))
        self.sop = program.sop
        self.journal = Journal.in_memory()
        state = self.journal.state
        self.values = Values(self.journal.blob, state)
        self.bus = Bus(self.journal)
        scopes = Scopes(program, self.values, "test")
        self.runner = held(procedure, self.sop, self.values)
        context = RunContext(program, self.bus, state, self.values)
        self.scheduler = Scheduler(context, SOPGraph(self.sop), scopes, Fanout(context, scopes, self.runner))
        self.task: asyncio.Task[RunEnded] | None = None

    async def __aenter__(self) -> Machine:
        await self.journal.__aenter__()
        if self._begun:
            await self.journal.append(*self._begun, Resumed(sop="", compiled="", sources={}), blobs=self._blobs)
        else:
            await self._give()
        self.task = asyncio.create_task(self.scheduler.run())
        await self.settle()
        return self

    async def _give(self) -> None:
        blobs: dict[str, bytes] = {}
        versions: list[Version] = []
        for name, value in {**self.procedure.given, **self.procedure.initial}.items():
            packed = pack(Data(value=value))
            blobs[digest(packed)] = packed
            versions.append(Version(artifact=name, number=1, payload=digest(packed), untrusted=self._untrusted.get(name, "")))
        await self.journal.append(RunOpened(run="test", sop="", compiled="", sources={}, entry=""),
                                  Committed(versions=tuple(versions)), blobs=blobs)

    async def __aexit__(self, *_: object) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])
        self.bus.close()
        await self.journal.close()

    async def settle(self) -> None:
        """Returns when nothing more happens of itself."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)
            if not loop._ready:
                return

    async def finish(self, ran: Ran) -> None:
        self.runner.running[ran].set_result(None)
        await self.settle()

    @property
    def ended(self) -> str | None:
        if self.task is None or not self.task.done():
            return None
        error = self.task.exception()
        if isinstance(error, StepFailed):
            return "stopped"
        if error is not None:
            raise error
        return "quiet"

    def artifacts(self) -> dict[str, tuple[int, Any]]:
        state = self.journal.state
        return {name: (len(made), seen(self.values.latest(name))) for name, made in state.versions.items() if made}

    def log(self) -> list[tuple[Any, ...]]:
        """(step, round, versions read, item keys) of every firing, in order."""
        return [(e.step, e.round, tuple(sorted(e.read.items())), e.items) for _, e in self.journal.events(Fired)]
