"""A run under way: entered, heard, stopped, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from metaflow_agents.agent.material import Material
from metaflow_agents.errors import (
    BudgetExceeded,
    EndpointRefused,
    JournalError,
    MetaflowError,
    NotHere,
    RunBusy,
    Unexpected,
    UsageError,
    did_you_mean,
    failure_of,
)
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import free_name, journal_path
from metaflow_agents.models.caller import Watch
from metaflow_agents.models.limits import Limiters
from metaflow_agents.models.pricing import PICO
from metaflow_agents.prompts import MISSING
from metaflow_agents.questions.broker import Asker
from metaflow_agents.runtime.caps import run_budget
from metaflow_agents.runtime.wiring import Assembly, Options, assemble
from metaflow_agents.schema.binary import loaded
from metaflow_agents.schema.event import Event, Outcome, RunEnded
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.graph import outputs_of
from metaflow_agents.threads.blocking import ends_task, to_the_end
from metaflow_agents.threads.collector import seldom_collected
from metaflow_agents.threads.watchdog import watched

T = TypeVar("T")
EXIT_STATUS: dict[Outcome, int] = {
    "success": 0, "until": 0, "failure": 1, "stopped": 1, "budget": 3, "waiting": 4, "endpoint": 5, "interrupted": 130}
"""What the command ends with, by how the run did."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Calls that were sent and never answered: they may have cost so much at most, in tokens and US dollars."""

    calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended and what it made. `outputs`: name → plain value; files are path → text, or bytes where
    they are no text. `artifacts` are the same of all that was made, what only steps read included.

    `tokens_cached` of the tokens were in an endpoint's cache. `cost` is in US dollars, exact; where it is `estimated`, it
    cost no more than that. It leaves out the `unpriced` calls: they cost money, and nobody knows how much. Calls that were sent
    and never answered, since a process died meanwhile, stand in `unanswered` alone, at their worst case. `untrusted` says of the
    artifacts that hold words from outside the user where these came from.
    """

    name: str
    outcome: Outcome
    reason: str
    outputs: Mapping[str, Any]
    folder: Path | None
    calls: int
    tokens: int
    seconds: float
    activations: int
    never: Mapping[str, str] = field(default_factory=dict)
    tokens_cached: int = 0
    cost: Decimal = Decimal(0)
    estimated: bool = False
    unpriced: int = 0
    unanswered: Unanswered = Unanswered()
    untrusted: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it succeeded (or came to the step named by `until`)."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """What the command ends with: 0, 1, 3, 4, 5 or 130."""
        return EXIT_STATUS[self.outcome]

    def __getitem__(self, output: str) -> Any:
        if output not in self.outputs:
            raise KeyError(f"{output}: {did_you_mean(output, self.outputs)}")
        return self.outputs[output]

    def get(self, output: str, type_: type[T]) -> T:
        """An output as a value of a type that pydantic knows. Raises pydantic's ValidationError where it does not fit."""
        return TypeAdapter(type_).validate_python(self[output])


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run is entered with: its SOP, how it is carried out, and what its journal gets before anything else (`first`, which
    is asked for then with the run's name, and the blobs that its events name).
    """

    program: Program
    options: Options
    first: Callable[[str], Sequence[Event]] = lambda _: ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)


def new_journal(home: Path | None, label: str, begins: Beginning, *, chosen: bool) -> tuple[Journal, Beginning]:
    """The journal of a new run, which has its first events before anybody sees it, and what is left of them; where nobody chose
    its name and another run took it since, under the next free one.
    """
    while home is not None:
        try:
            journal = Journal.create(journal_path(home, label), partial(begins.first, label), begins.blobs)
            return journal, Beginning(begins.program, begins.options)
        except (RunBusy, UsageError):
            if chosen:
                raise
            label = free_name(home, label)
    return Journal.in_memory(), begins


class Run:
    """A run under way. Made by `start` and `go_on`; an async context manager: leaving it early stops the run.

    Until it is entered it holds nothing, and no lock. `opening` gives the journal, locked, and what the run really begins with:
    another `Beginning` than was foreseen where the journal is not what it was.
    """

    def __init__(self, name: str, home: Path | None, foreseen: Beginning,
                 opening: Callable[[], tuple[Journal, Beginning]]) -> None:
        self.program, self.name = foreseen.program, name
        self.folder = None if home is None else home / name
        self._options, self._opening = foreseen.options, opening
        self._limiters = Limiters()                            # those of the run itself once it is entered
        self.earlier = 0                                       # events of sittings before this one
        self.lacking = ""                                      # what is not there on this machine, where that stopped the run
        self._joined: Assembly | None = None
        self._opened = AsyncExitStack()                        # what models own, and the collector's thresholds
        self._work: asyncio.Task[RunEnded] | None = None       # what `stop` cancels
        self._task: asyncio.Task[RunEnded] | None = None       # ends after it, with the run's last event; nobody cancels it

    @property
    def _assembly(self) -> Assembly:
        if self._joined is None:
            raise UsageError("the run has not begun: enter it with `async with`")
        return self._joined

    @property
    def at_terminal(self) -> bool:
        """Whether a model of the run asks the person at this terminal."""
        return any(models.at_terminal for models in self._options.all_models)

    @property
    def bus(self) -> Bus:
        """Subscribe to artifacts, events or a role's inbox; send messages to roles."""
        return self._assembly.bus

    @property
    def journal(self) -> Journal:
        """The run's journal, with its state."""
        return self._assembly.journal

    @property
    def material(self) -> Material:
        """What prompts show of what steps read."""
        return self._assembly.material

    @property
    def waiting(self) -> int:
        """How many calls wait at the moment for what their endpoint allows (`limits`)."""
        return self._limiters.waiting

    def attend(self, asker: Asker) -> None:
        """Questions go to whoever `asker` asks, and park the run only where that gives no answer.

        To be called before the run is entered. Raises UsageError.
        """
        if self._joined is not None:
            raise UsageError("the run has begun: say who is asked before you enter it")
        self._options = replace(self._options, asker=asker)

    def watch(self, hear: Watch) -> None:
        """From its beginning the run streams answers where their models can; `hear` gets a call's key and each piece of text.

        To be called before the run is entered. Raises UsageError.
        """
        if self._joined is not None:
            raise UsageError("the run has begun: watch it before you enter it")
        self._options = replace(self._options, watch=hear)

    async def events(self) -> AsyncIterator[Event]:
        """Every event of the run from its first, as it becomes durable, until the run rests."""
        async with self.bus.events(after=0) as events:
            async for _, event in events:
                yield event
                if isinstance(event, RunEnded) and event == self.journal.state.ended:
                    return

    def stop(self) -> None:
        """Cancels the run: its activations end, nothing is left running, and it can be resumed. Once is enough."""
        if self._work is not None and not self._work.cancelling():
            self._work.cancel()

    async def result(self) -> RunResult:
        """Waits until the run rests. Raises JournalError where the journal could not be written."""
        if self._task is None:
            raise UsageError("the run has not begun: enter it with `async with`")
        ended = await asyncio.shield(self._task)
        state = self.journal.state
        spent, values = state.total(), self._assembly.values
        made = {name: loaded(values.plain(state.payload(name) or "")) for name in self.program.sop.artifacts
                if values.latest(name) is not MISSING}
        outputs = {name: made[name] for name in outputs_of(self.program.sop) if name in made}
        return RunResult(self.name, ended.outcome, ended.reason, outputs, self.folder, spent.calls, spent.tokens,
                         state.elapsed, state.activations, ended.never, spent.cached, Decimal(spent.cost) / PICO,
                         spent.estimated > 0, spent.unpriced,
                         Unanswered(spent.open_calls, spent.open_tokens, Decimal(spent.open_cost) / PICO),
                         {name: label for name in made if (label := state.untrusted(name))}, made)

    async def __aenter__(self) -> Self:
        journal, begins = self._opening()
        self.program = begins.program
        self._options = replace(begins.options, asker=self._options.asker, watch=self._options.watch)
        self._limiters = Limiters(self._options.limits)
        if self.folder is not None:
            self.name, self.folder = journal.path.stem, self.folder.with_name(journal.path.stem)
        await journal.__aenter__()
        self.earlier = journal.found
        try:
            self._opened.enter_context(seldom_collected())
            self._opened.enter_context(watched())
            if first := begins.first(self.name):
                await journal.append(*first, blobs=begins.blobs)
            self._joined = assemble(self.program, journal, self._options, self._limiters, folder=self.folder)
            for models in self._options.all_models:
                await self._opened.enter_async_context(models.open())
            for tools in self._joined.toolboxes:
                await self._opened.enter_async_context(tools.opened())
        except BaseException:
            self._leave_earlier()
            try:
                await self._opened.aclose()
            finally:
                await journal.close()
            raise
        self._opening = _entered                # what it began with, files that it was given included, is let go
        self._work = asyncio.create_task(self._scheduled(), name=f"run {self.name}")
        self._task = asyncio.create_task(self._drive(self._work), name=f"last event of run {self.name}")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
            if self._task is not None:
                await _ended(self._task)
        finally:
            self.bus.close()
            self._leave_earlier()
            await self._assembly.memory.close()
            self._limiters.close()
            try:
                await self._opened.aclose()
            finally:
                await self.journal.close()

    def _leave_earlier(self) -> None:
        if self._options.earlier is not None:
            self._options.earlier.close()

    async def _drive(self, work: asyncio.Task[RunEnded]) -> RunEnded:
        """Whatever ends the work becomes the run's last event. Who subscribed hears what was published, and then the end."""
        try:
            try:
                ended = await work
            except asyncio.CancelledError:              # stopped before its first step
                ended = RunEnded(outcome="interrupted", reason="interrupted")
            ended = await self._rested(ended)
            await self.bus.publish(ended)
            return ended
        finally:
            self.bus.close()

    async def _rested(self, ended: RunEnded) -> RunEnded:
        """How the run ended once its folder, the history in it, and the project's memory are as the journal says; what hinders
        that is told.
        """
        folder, memory = self._assembly.folder, self._assembly.memory
        await self.journal.sync()                       # what was handed over before a stop is a part of it
        for rest in (*([folder.rest] if folder else []), memory.settle):
            try:
                await rest()
            except BaseException as error:
                if ends_task(error, asyncio.current_task()):
                    raise
                told = str(error) if isinstance(error, MetaflowError) else _fault(error)
                if told not in ended.reason:            # else that is what stopped it
                    outcome = "stopped" if ended.outcome in ("success", "until") else ended.outcome
                    reason = f"{ended.reason}; {told}" if ended.reason else told
                    ended = ended.model_copy(update={"outcome": outcome, "reason": reason})
        return ended

    async def _scheduled(self) -> RunEnded:
        """Scheduler and folder side by side, and how that ended."""
        folder = self._assembly.folder
        limit = asyncio.timeout(None)
        try:
            limit = asyncio.timeout(self._time_left())
            await self._assembly.documents.renew(self.bus)
            if folder is not None:
                await folder.settle()
            async with limit:
                self._assembly.parking.rests.clock = limit      # it stands still while nothing but answers is waited for
                follower = None if folder is None else asyncio.create_task(folder.follow(), name="folder")
                try:
                    ended = await self._beside(follower)
                finally:
                    if follower is not None:
                        follower.cancel()
                        await _ended(follower)
            return ended
        except asyncio.CancelledError as error:
            if ends_task(error, asyncio.current_task()):
                return RunEnded(outcome="interrupted", reason="interrupted")
            return self._faulty(error)
        except TimeoutError as error:
            if not limit.expired():
                return self._faulty(error)
            return RunEnded(outcome="budget", reason=f"the time budget is used up; `sop resume {self.name} --budget time=…`")
        except JournalError:
            raise
        except (BudgetExceeded, EndpointRefused) as error:
            return RunEnded(outcome="budget" if isinstance(error, BudgetExceeded) else "endpoint", reason=str(error))
        except MetaflowError as error:          # a function that can't be imported, too: it shows when it is called
            self.lacking = str(error) if isinstance(error, NotHere) else ""
            return self._faulty(error) if isinstance(error, Unexpected) else RunEnded(outcome="stopped", reason=str(error))
        except BaseException as error:          # outside of every attempt: a fault of the engine itself
            if ends_task(error, asyncio.current_task()):
                raise
            return self._faulty(error)

    def _faulty(self, error: BaseException) -> RunEnded:
        return RunEnded(outcome="stopped", reason=f"{_fault(error)}; `sop resume {self.name}` goes on from the journal")

    async def _beside(self, follower: asyncio.Task[None] | None) -> RunEnded:
        """The scheduler's word, unless the folder can't be written: then that is what stops the run."""
        scheduled = asyncio.create_task(self._assembly.scheduler.run(), name="scheduler")
        try:
            await asyncio.wait([scheduled, *([follower] if follower is not None else [])], return_when=asyncio.FIRST_COMPLETED)
            if follower is not None and follower.done() and not scheduled.done():
                follower.result()
            return await scheduled
        finally:
            if not scheduled.done():
                scheduled.cancel()
                await _ended(scheduled)

    def _time_left(self) -> float | None:
        state = self.journal.state
        cap = run_budget(self.program, state.budget).time
        return None if cap is None else max(cap - state.elapsed, 0.0)


def _entered() -> tuple[Journal, Beginning]:
    raise UsageError("a run is entered once: `go_on` goes on with one")


def _fault(error: BaseException) -> str:
    return f"a fault of this program, outside of every attempt: {failure_of(error)}"


async def _ended(task: asyncio.Task[Any]) -> None:
    """Returns once a task is over; also where the caller is cancelled meanwhile, so that none is left behind."""
    await to_the_end(asyncio.ensure_future(asyncio.wait([task])))
