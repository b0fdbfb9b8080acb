"""`use:` steps: types of step that installed packages add, one class each (entry points `metaflow_agents.executors`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from metaflow_agents import plugins
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed, UsageError, raised
from metaflow_agents.models.python import THREADS
from metaflow_agents.prompts import render_args
from metaflow_agents.schema.binary import loaded
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trust import joined
from metaflow_agents.steps.effects import Effects
from metaflow_agents.steps.function import as_json, plain
from metaflow_agents.steps.repeats import arguments_told
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.steps.validation import Acceptance
from metaflow_agents.threads.blocking import Threads, called

P = TypeVar("P", bound=Value)


@dataclass(frozen=True, slots=True)
class Job:
    """One activation of a `use:` step: what is to be made, and of what.

    `key` tells it from all others of its run, and is the same after a crash: `draw@1[cat]~0`. `reads`: artifact or input → its
    value as plain data, None where it is missing; of files path → text, or bytes where they are no text. `item` is that of
    `foreach`, None without one. `artifact` is what the step makes; `schema` the JSON Schema that it has to fit (None: any), and
    `patterns` the paths to which files are confined (empty: it makes no files).
    """

    key: str
    step: str
    artifact: str
    reads: Mapping[str, Any]
    item: Any = None
    schema: Mapping[str, Any] | None = None
    patterns: tuple[str, ...] = ()


class Executor(ABC, Generic[P]):
    """A type of step. Made once for each activation, with what the step gives under `with`.

    `SPEC` is what `with` may hold: a subclass of `schema.model.Value`, by which `sop check` tells what is wrong before a run.
    `UNTRUSTED` says in words where what it makes comes from, if from outside the user (`from the Acme catalogue`); empty: it
    does not, and is as trusted as what the step reads.
    """

    SPEC: ClassVar[type[Value]] = Value
    UNTRUSTED: ClassVar[str] = ""

    def __init__(self, given: P) -> None:
        self.given = given

    @abstractmethod
    def make(self, job: Job) -> Any:
        """The artifact's value, now or by a coroutine: JSON, a pydantic model, bytes, or for files path → text or bytes (None:
        the file is deleted). One that is no coroutine runs in a thread.

        What it gave is in the journal before anything is built on it: a resume does not make it again. An exception fails the
        attempt, and its words are told to people: no secrets. After a crash in between it may be called a second time, unless the
        step says `effect: once`.
        """


@cache
def executor(name: str) -> type[Executor[Any]]:
    """The class of a type of step. Raises UsageError for one that is not installed, that can't be loaded, or that is none."""
    plugin = plugins.offered("executors", name, "type of step")
    found = plugin.load()
    if not (isinstance(found, type) and issubclass(found, Executor)):
        raise UsageError(f"`{name}` (executors) of {plugin.maker} is {found!r}, and no subclass of "
                         f"`{Executor.__module__}.Executor`; fix or uninstall {plugin.distribution}")
    return found


class Executors:
    """Does the work of `use:` steps."""

    def __init__(self, sop: SOP, acceptance: Acceptance, observations: Observations, effects: Effects) -> None:
        self._sop, self._acceptance, self._observations, self._effects = sop, acceptance, observations, effects
        self._threads = Threads(THREADS, "executor")

    async def work(self, activation: Activation) -> Work:
        """What it made, as the artifact. Raises AttemptFailed where it raised or can't take what it is given, AnswerInvalid."""
        step = self._sop.steps[activation.key.step]
        name, given = step.use or "", render_args(step.with_ or {}, activation.scope)
        read = {what: loaded(plain(value)) for what, value in activation.scope.items() if what in activation.read}
        item = None if step.foreach is None else loaded(plain(activation.scope["item"]))
        job = Job(str(activation.key), activation.key.step, step.makes.artifact, read, item,
                  self._acceptance.schema(step.makes.artifact), activation.patterns)
        key, label, kind = f"{activation.key}/use", "", executor(name)

        def make() -> Awaitable[Any]:
            return self._made(name, kind, given, job)
        if step.effect == "once":
            told = arguments_told({**read, "item": item, "with": plain(given)})
            value, label = await self._effects.once(key, f"use({name})", told, make, self._acceptance.gives(activation))
        else:
            value = await self._observations.once(key, make)
        work = self._acceptance.accept(activation, value)
        return replace(work, untrusted=joined(activation.untrusted, kind.UNTRUSTED, label))

    async def _made(self, name: str, kind: type[Executor[Any]], given: Mapping[str, Any], job: Job) -> Any:
        try:
            one = kind(kind.SPEC.model_validate(plain(given)))
        except ValidationError as error:
            told = "; ".join(f"`{'.'.join(map(str, fault['loc'])) or 'with'}`: {fault['msg']}"
                             for fault in error.errors(include_url=False, include_context=False, include_input=False))
            raise AttemptFailed(f"`use: {name}` does not take what `with` gives: {told}") from None
        try:
            value = await called(f"use: {name}", self._threads, one.make, job)
        except AttemptFailed:
            raise
        except Exception as error:            # somebody else's code: whatever it raises is told as a failed attempt
            raise AttemptFailed(f"`use: {name}` raised {raised(error)}") from error
        return as_json(f"use: {name}", value)
