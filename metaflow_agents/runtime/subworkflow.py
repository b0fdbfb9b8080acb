"""`sop:` steps: another SOP carried out inside of an activation, by the same engine, in the run's journal and under its caps.

How it is joined is handed in: this knows when it begins, goes on and ends, and what becomes of its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.engine.scheduler import Scheduler
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AnswerInvalid, AttemptFailed, BudgetExceeded, StepFailed, Waiting
from metaflow_agents.journal.inner import InnerJournal
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.project import ProjectMemory
from metaflow_agents.prompts import MISSING, CollectionView, FilesView, evaluate
from metaflow_agents.prompts.names import free_names, histories
from metaflow_agents.questions.inner import InnerDesk
from metaflow_agents.runtime.inputs import initial_versions, vouched_for
from metaflow_agents.schema.binary import Content, files_in
from metaflow_agents.schema.binary import packed as files_packed
from metaflow_agents.schema.event import Committed, Version
from metaflow_agents.schema.payload import Binary, Data, Files, held, stored
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.schema.trust import joined, of_input
from metaflow_agents.schema.validation import validator
from metaflow_agents.sop.graph import outputs_of
from metaflow_agents.steps.labelled import labelled
from metaflow_agents.steps.validation import Acceptance


@dataclass(frozen=True, slots=True)
class Joined:
    """The rooms of a sub-SOP, joined for one activation."""

    scheduler: Scheduler
    values: Values
    desk: InnerDesk
    memory: ProjectMemory
    cap: float | None           # seconds that it may take
    command: str                # raises it


Join = Callable[[Program, InnerJournal, Activation], Joined]
"""Joins the rooms for a sub-SOP that has begun."""


class SubSOPs:
    """Does the work of `sop:` steps."""

    def __init__(self, program: Program, journal: Journal, acceptance: Acceptance,
                 load: Callable[[Program], Callable[[str], Any]], join: Join, models: Mapping[str, str]) -> None:
        self._program, self._journal, self._acceptance, self._load = program, journal, acceptance, load
        self._join, self._models = join, models

    async def work(self, activation: Activation) -> Work:
        """What the sub-SOP makes. Raises AttemptFailed where it did not succeed, Waiting where it waits for a person, and what
        stops a run.
        """
        step = self._program.sop.steps[activation.key.step]
        inner = self._program.sops[step.sop or ""]
        async with InnerJournal(self._journal, str(activation.key)) as journal:
            if not journal.begun:
                await journal.append(*self._begin(step, inner, activation, blobs := dict[str, bytes]()), blobs=blobs)
            with labelled(lambda: _labels(journal)):
                rooms = self._join(inner, journal, activation)
                while await self._rests(step, inner, journal, rooms, activation):
                    rooms = self._join(inner, journal, activation)
            await rooms.memory.settle()         # before it is finished: a resume finds nothing of it to hand over then
            return self._made(step, inner, journal, rooms.values, activation)

    def parts(self, step: Step) -> dict[str, str]:
        """What the result of a step depends on besides what it reads: the SOP that it is, and who answers in there."""
        name = self._program.sops[step.sop or ""].fingerprint
        return {"sop": name, "models": self._models[name]}

    async def _rests(self, step: Step, inner: Program, journal: InnerJournal, rooms: Joined, activation: Activation) -> bool:
        """Goes on until it rests. Whether it rested for an answer that came meanwhile, and so has to go on."""
        name, cap = inner.sop.sop, rooms.cap
        left = None if cap is None else max(cap - journal.state.elapsed, 0.0)
        try:
            async with asyncio.timeout(left) as limit:
                ended = await rooms.scheduler.run()
        except TimeoutError:
            if not limit.expired():
                raise
            raise BudgetExceeded(f"the time budget of the SOP {name} is used up: {cap:g} s; `{rooms.command}` goes on") from None
        except StepFailed as error:
            if error.halted or self._last(step, activation):    # the run stops where it failed, and a resume goes on there
                raise StepFailed(f"{activation.key}/{error.activation}", error.error, halted=error.halted) from error
            raise AttemptFailed(f"in the SOP `{name}`: {error}") from error
        if ended.outcome == "waiting":
            keys = rooms.desk.still_open()
            if keys:
                raise Waiting(keys)
            return True
        if ended.outcome != "success":
            raise AttemptFailed(f"the SOP `{name}` finished without success: {ended.reason}")
        return False

    def _last(self, step: Step, activation: Activation) -> bool:
        """Whether a failure now is one that stops the run."""
        slot = self._journal.state.active[activation.key.firing].slot(activation.key.item)
        return step.on_fail.action == "stop" and slot.series >= step.retries

    def _begin(self, step: Step, inner: Program, activation: Activation, blobs: dict[str, bytes]) -> tuple[Committed]:
        """Its inputs and first values. An input is as untrusted as what its own expression names; a default is the author's."""
        versions: dict[str, tuple[str, str]] = {}
        for name, spec in inner.sop.inputs.items():
            label = joined(_label_of(step.inputs.get(name), activation), "" if vouched_for(spec) else of_input(name))
            payload, loaded = self._input(inner, name, self._given(step, name, spec.default, activation))
            blobs |= loaded
            versions[name] = stored(payload, blobs), label
        versions |= {name: (payload, "") for name, payload in initial_versions(inner, blobs, self._load(inner)).items()}
        return (Committed(versions=tuple(Version(artifact=name, number=1, payload=payload, untrusted=label)
                                         for name, (payload, label) in versions.items())),)

    def _given(self, step: Step, name: str, default: Any, activation: Activation) -> Any:
        if name not in step.inputs:
            return default
        value = evaluate(step.inputs[name], activation.scope)
        if value is MISSING:
            raise AttemptFailed(f"`inputs: {{{name}: {step.inputs[name]}}}` gives nothing: what it reads is missing")
        return plain(value)

    def _input(self, inner: Program, name: str, value: Any) -> tuple[Data | Binary | Files, dict[str, bytes]]:
        """What an input of the sub-SOP holds: what a file holds, files, or a value that fits its schema; with its blobs."""
        spec = inner.sop.inputs[name]
        if value is None and not spec.required:
            return Data(value=None), {}
        if spec.type == "folder" and isinstance(value, Mapping) and all(isinstance(one, Content) for one in value.values()):
            names, blobs = files_packed(value)
            return Files(patterns=("**",), files=names), blobs
        inside = next(files_in(value), None)
        try:
            if spec.type == "folder":
                raise AnswerInvalid(["it is a folder: a set of files was expected"])
            if inside is not None and (spec.type != "file" or inside is not value):
                raise AnswerInvalid([f"{inside} was given, and it takes no such file; declare it `type: file` or `type: folder`"])
            if inside is not None:
                return held(inside)
            schema = inner.schemas.get(f"input:{name}", {"type": "string"})
            return Data(value=validator(schema, name, self._load(inner)).validate(value)), {}
        except AnswerInvalid as error:
            raise AttemptFailed(f"the input `{name}` of the SOP `{inner.sop.sop}`: {error}") from None

    def _made(self, step: Step, inner: Program, journal: InnerJournal, values: Values, activation: Activation) -> Work:
        names = step.output if isinstance(step.output, tuple) else (step.output or outputs_of(inner.sop)[0],)
        made = {name: values.plain(payload) for name in names if (payload := journal.state.payload(name)) is not None}
        if not isinstance(step.output, tuple) and not made:
            raise AttemptFailed(f"the SOP `{inner.sop.sop}` made no `{names[0]}`")
        work = self._acceptance.accept(activation, made if isinstance(step.output, tuple) else made[names[0]])
        return Work(work.payload, work.blobs, untrusted=joined(*(journal.state.untrusted(name) for name in made)))


def plain(value: Any) -> Any:
    """A value as JSON data: files path → text, collections key → value."""
    if isinstance(value, FilesView | CollectionView):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _label_of(expression: str | None, activation: Activation) -> str:
    """What of all that an expression names came from outside the user."""
    names = free_names(expression) | histories(expression) if expression is not None else ()
    return joined(*(activation.labels.get(name, "") for name in names))


def _labels(journal: InnerJournal) -> str:
    """What of all that the sub-SOP made came from outside: its error may say it."""
    return joined(*(made.untrusted for versions in journal.state.versions.values() for made in versions))
