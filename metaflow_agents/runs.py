"""Runs: begun, gone on with, branched. The Python API, and what the command line stands on.

result = await run("letters.yaml", letter=text, model=my_function)
result["reply"]

async with start("letters.yaml", letter=text, model=my_function) as going:
async for message in going.bus.subscribe("reply"):
...
result = await going.result()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from metaflow_agents.assembly import Assembly, Options, assemble, run_budget
from metaflow_agents.bus import Bus
from metaflow_agents.engine.earlier import EarlierRun
from metaflow_agents.errors import (
    BudgetExceeded,
    EndpointRefused,
    JournalError,
    MetaflowError,
    RunBusy,
    UsageError,
    did_you_mean,
)
from metaflow_agents.garbage import seldom_collected
from metaflow_agents.inputs import initial_versions, labels, read_inputs
from metaflow_agents.journal.consent import Consents
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.values import Values
from metaflow_agents.models.caller import Watch
from metaflow_agents.models.limits import Limiters
from metaflow_agents.models.python import load_function
from metaflow_agents.models.registry import Given, resolve
from metaflow_agents.models.tariff import PICO
from metaflow_agents.opening import (
    WORKSPACE,
    answering,
    as_it_is_now,
    caps,
    checked,
    embedders,
    fine_name,
    free_name,
    given_payloads,
    identity,
    inner_models,
    journal_path,
    limits,
    model_names,
    refuse_lost_steps,
    refuse_taken,
    refuse_unconfined,
    refuse_unknown_models,
    refuse_unknown_step,
    refuse_unpriced,
    run_names,
    same_identity,
    sandbox_for,
    sources,
    sources_of,
)
from metaflow_agents.people.desk import Asker
from metaflow_agents.prompts import MISSING
from metaflow_agents.schema.event import Committed, Event, Fired, Outcome, Resumed, RunEnded, RunOpened, Version
from metaflow_agents.schema.keys import firing_key, parse_firing
from metaflow_agents.schema.program import Program
from metaflow_agents.settings import Settings
from metaflow_agents.sop.graph import outputs_of
from metaflow_agents.sop.library import python_folders
from metaflow_agents.threads import to_the_end
from metaflow_agents.tooling import refuse_unset_secrets

T = TypeVar("T")
_STATUS: dict[Outcome, int] = {
    "success": 0, "until": 0, "failure": 1, "stopped": 1, "budget": 3, "waiting": 4, "endpoint": 5, "interrupted": 130}


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended and what it made. `outputs`: name → plain value; files are path → text.

    `tokens_cached` of the tokens were in an endpoint's cache. `cost` is in US dollars, exact; where it is `estimated`, it
    cost no more than that. It leaves out the `unpriced` calls: they cost money, and nobody knows how much. `untrusted` says
    of the outputs that hold words from outside the user where these came from.
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
    untrusted: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it succeeded (or came to the step named by `until`)."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """What the command ends with: 0, 1, 3, 4, 5 or 130."""
        return _STATUS[self.outcome]

    def __getitem__(self, output: str) -> Any:
        if output not in self.outputs:
            raise KeyError(f"{output}: {did_you_mean(output, self.outputs)}")
        return self.outputs[output]

    def get(self, output: str, type_: type[T]) -> T:
        """An output as a value of a type that pydantic knows. Raises pydantic's ValidationError where it does not fit."""
        return TypeAdapter(type_).validate_python(self[output])


class Run:
    """A run under way. Made by `start` and `go_on`; an async context manager: leaving it early stops the run."""

    def __init__(self, program: Program, options: Options, name: str, home: Path | None, journal: Callable[[], Journal],
                 first: Callable[[Journal], list[Event]], blobs: Mapping[str, bytes]) -> None:
        self.program, self.name = program, name
        self.folder = None if home is None else home / name
        self._options, self._open, self._first, self._blobs = options, journal, first, dict(blobs)
        self.earlier = 0                                       # events of sittings before this one
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
    def waiting(self) -> int:
        """How many calls wait at the moment for what their endpoint allows (`limits`)."""
        return 0 if self._options.limiters is None else self._options.limiters.waiting

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
        found = {name: values.latest(name) for name in outputs_of(self.program.sop)}
        outputs = {name: values.plain(state.payload(name) or "") for name, value in found.items() if value is not MISSING}
        return RunResult(self.name, ended.outcome, ended.reason, outputs, self.folder, spent.calls, spent.tokens,
                         state.elapsed, state.activations, ended.never, spent.cached, Decimal(spent.cost) / PICO,
                         spent.held + spent.estimated > 0, spent.unpriced,
                         {name: label for name in outputs if (label := state.untrusted(name))})

    async def __aenter__(self) -> Self:
        journal = self._open()
        if self.folder is not None:
            self.name, self.folder = journal.path.stem, self.folder.with_name(journal.path.stem)
        await journal.__aenter__()
        self.earlier = journal.state.seq
        try:
            self._opened.enter_context(seldom_collected())
            await journal.append(*self._first(journal), blobs=self._blobs)
            self._joined = assemble(self.program, journal, self._options, folder=self.folder)
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
        self._blobs.clear()
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
            if self._options.limiters is not None:
                self._options.limiters.close()
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
            except MetaflowError as error:
                told = str(error)
                if told not in ended.reason:            # else that is what stopped it
                    outcome = "stopped" if ended.outcome in ("success", "until") else ended.outcome
                    reason = f"{ended.reason}; {told}" if ended.reason else told
                    ended = ended.model_copy(update={"outcome": outcome, "reason": reason})
        return ended

    async def _scheduled(self) -> RunEnded:
        """Scheduler and folder side by side, and how that ended."""
        folder = self._assembly.folder
        left = self._time_left()
        try:
            if folder is not None:
                await folder.settle()
            async with asyncio.timeout(left) as limit:
                self._assembly.parking.clock = limit            # it stands still while nothing but answers is waited for
                follower = None if folder is None else asyncio.create_task(folder.follow(), name="folder")
                try:
                    ended = await self._beside(follower)
                finally:
                    if follower is not None:
                        follower.cancel()
                        await _ended(follower)
            return ended
        except asyncio.CancelledError:
            return RunEnded(outcome="interrupted", reason="interrupted")
        except TimeoutError:
            if not limit.expired():
                raise
            return RunEnded(outcome="budget", reason=f"the time budget is used up; `sop resume {self.name} --budget time=…`")
        except JournalError:
            raise
        except BudgetExceeded as error:
            return RunEnded(outcome="budget", reason=str(error))
        except EndpointRefused as error:
            return RunEnded(outcome="endpoint", reason=str(error))
        except MetaflowError as error:          # a function that can't be imported, too: it shows when it is called
            return RunEnded(outcome="stopped", reason=str(error))

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


async def _ended(task: asyncio.Task[Any]) -> None:
    """Returns once a task is over; also where the caller is cancelled meanwhile, so that none is left behind."""
    await to_the_end(asyncio.ensure_future(asyncio.wait([task])))


async def run(sop: str | Path, /, **options: Any) -> RunResult:
    """Begins a run of a SOP and waits for its end.

    The options are those of `start`. Raises SOPInvalid, UsageError, ModelMissing before anything is made; how the run
    itself ended stands in the result.
    """
    async with start(sop, **options) as going:
        return await going.result()


def run_sync(sop: str | Path, /, **options: Any) -> RunResult:
    """`run` for programs without an event loop; under a running one (a notebook) it works in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(sop, **options))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="run_sync") as pool:
        return pool.submit(lambda: asyncio.run(run(sop, **options))).result()


def start(
    sop: str | Path,
    /,
    *,
    model: Given | None = None,
    models: Mapping[str, Given] | None = None,
    inputs: Mapping[str, Any] | None = None,
    name: str | None = None,
    workspace: Path | str | None = WORKSPACE,
    until: str | None = None,
    from_run: str | None = None,
    sandbox: str | None = None,
    budget: Mapping[str, float | str] | None = None,
    given: Mapping[str, Any] | None = None,
    staged: bool = False,
    yes: bool = False,
    asker: Asker | None = None,
    settings: Settings | None = None,
    **more_inputs: Any,
) -> Run:
    """A new run, to be entered with `async with`.

    `model` answers for every role (a name such as `dry`, or a function that gets the request), `models` for the names
    that the SOP gives. Inputs are keywords, or stand in `inputs`. `workspace` is where runs lie; None keeps journal and
    files in memory. `until` is a step after which the run rests, `from_run` a run whose unchanged activations are taken
    over, `sandbox` is where commands run: `"bubblewrap"` (the default), or `"none"`, which does not confine them; `budget`
    caps `usd`, `tokens`, `calls` and `time` (seconds), `given` maps artifacts to values that stand in for the work of their
    steps. `staged`: acting tools only tell what they would do. `asker` asks a person a question that the run has (an async
    function: the question and its number → an answer, or None for "not now"); without one the run waits for `sop answer`.
    `yes` approves and allows what would be asked about, never what is denied.
    Raises SOPInvalid, SOPNotFound, UsageError, ModelMissing; nothing has been made then.
    """
    settings = settings or Settings.read()
    loaded = checked(sop, settings)
    program, folders = loaded.program, python_folders(loaded.folder, Path.cwd())
    chosen: dict[str, Given] = {**({"*": model} if model is not None else {}), **(models or {})}
    home = None if workspace is None else Path(workspace)
    resolved = resolve(model_names(program.sop), sources(program.sop, chosen, settings, folders, home),
                       embedders(program.sop))
    inner = inner_models(program, lambda sop: sources(sop, chosen, settings, folders, home))
    confining = sandbox_for(program, sandbox, settings, dry=resolved.models.dry)
    refuse_unknown_step(program.sop, until)
    refuse_unknown_models(program, models or {})
    for one in program.all():
        refuse_unpriced(one.sop, inner.get(one.fingerprint, resolved.models), run_budget(program, caps(budget)))
        refuse_unset_secrets(one.sop, settings, dry=resolved.models.dry)
    load = partial(load_function, folders=folders)
    payloads, blobs = read_inputs(program, {**(inputs or {}), **more_inputs}, load)
    label = free_name(home, program.sop.sop) if name is None else fine_name(name)
    if home is not None and not journal_path(home, label).exists():
        refuse_taken(home, label)
    blobs.update(sources_of(loaded))
    opened = RunOpened(
        run=label, **identity(loaded), **answering(resolved), sandbox=confining.name, until=until, budget=caps(budget),
        given=given_payloads(program.sop, given, blobs), reused_from=from_run, package=installed("metaflow-agents"),
        staged=staged)
    versions = {**payloads, **initial_versions(program, blobs, load)}
    untrusted = labels(program, payloads)
    first = Committed(versions=tuple(
        Version(artifact=a, number=1, payload=p, untrusted=untrusted.get(a, "")) for a, p in versions.items()))
    options = Options(models=resolved.models, sandbox=confining, folders=folders, given=dict(given or {}),
                      earlier=_earlier(home, from_run), limiters=Limiters(limits(program.sop, settings, resolved.models)),
                      asker=asker, yes=yes, home=loaded.folder, settings=settings, inner=inner)

    def journal() -> Journal:
        return Journal.in_memory() if home is None else _created(home, label, chosen=name is not None)

    def first_events(journal: Journal) -> list[Event]:
        if home is None:
            return [opened, first]
        begun = opened.model_copy(update={"run": journal.path.stem, "at": time()})
        if confining.name == "none":
            Consents(settings.consents).give(begun, begun.compiled)     # before the event: a kill in between loses nothing
        return [begun, first]

    return Run(program, options, label, home, journal, first_events, blobs)


async def resume(name: str, **options: Any) -> RunResult:
    """Goes on with a run to its end. The options are those of `go_on`."""
    async with go_on(name, **options) as going:
        return await going.result()


def go_on(
    name: str,
    *,
    workspace: Path | str = WORKSPACE,
    model: Given | None = None,
    models: Mapping[str, Given] | None = None,
    sandbox: str | None = None,
    budget: Mapping[str, float | str] | None = None,
    until: str | None = None,
    accept_changes: bool = False,
    reask: bool = False,
    yes: bool = False,
    asker: Asker | None = None,
    settings: Settings | None = None,
) -> Run:
    """A run gone on with, to be entered with `async with`: after a crash, a cap, a failure, or an `until`.

    Models and sandbox are those that it had unless others are given; `sandbox="none"` has to be given again where that was not
    done on this machine. Where the SOP's file means something else now, what changed is told, and only `accept_changes` goes on
    with it. `reask` pays again for calls whose prompt changed. `yes` and `asker` are as for `start`.
    Raises UsageError, RunBusy, SOPInvalid, ModelMissing; nothing is changed then.
    """
    settings = settings or Settings.read()
    home, consents = Path(workspace), Consents(settings.consents)
    journal = Journal.open(journal_path(home, name))
    try:
        state = journal.state
        opened = state.opened
        if opened is None:
            raise UsageError(f"run `{name}` was killed before it began: remove {journal.path} and run the SOP again")
        if state.ended is not None and state.ended.outcome == "success":
            raise UsageError(f"run `{name}` has succeeded: there is nothing to go on with; `sop fork` branches from it")
        recorded = Program.model_validate_json(journal.blob(state.compiled))
        loaded, told = as_it_is_now(opened, recorded, settings)
        if told and not accept_changes:
            listed = "\n".join(f"  {change}" for change in told)
            raise UsageError(f"the SOP of run `{name}` changed since it ran:\n{listed}\n"
                             "`--accept-changes` goes on with it as it is now; undo the changes to go on as it was")
        program = recorded if loaded is None or not told else loaded.program
        folders = python_folders(Path(opened.location).parent, Path.cwd())
        chosen: dict[str, Given] = {**(state.chosen if model is None else {"*": model}), **(models or {})}
        resolved = resolve(model_names(program.sop), sources(program.sop, chosen, settings, folders, home, state.base_url),
                           embedders(program.sop))
        inner = inner_models(program, lambda sop: sources(sop, chosen, settings, folders, home, state.base_url))
        confining = sandbox_for(program, sandbox or state.sandbox or None, settings, dry=resolved.models.dry)
        if confining.name == "none" and not sandbox:
            refuse_unconfined(name, state, consents)
        refuse_unknown_step(program.sop, until)
        refuse_unknown_models(program, models or {})
        refuse_lost_steps(program.sop, state.active)
        for one in program.all():
            refuse_unset_secrets(one.sop, settings, dry=resolved.models.dry)
            refuse_unpriced(one.sop, inner.get(one.fingerprint, resolved.models),
                            run_budget(program, {**state.budget, **caps(budget)}))
        values = Values(journal.blob, state)
        given = {artifact: values.plain(payload) for artifact, payload in opened.given.items()}
        which = identity(loaded) if loaded is not None and told else same_identity(journal, recorded)
        resumed = Resumed(**which, **answering(resolved), changes=told, sandbox=confining.name, until=until, budget=caps(budget))
        blobs = sources_of(loaded) if loaded is not None and told else {}
        left = opened.reused_from if opened.reused_from in run_names(home) else None        # or it was removed since
        options = Options(models=resolved.models, sandbox=confining, folders=folders, given=given, earlier=_earlier(home, left),
                          reask=reask, limiters=Limiters(limits(program.sop, settings, resolved.models)),
                          asker=asker, yes=yes, home=Path(opened.location).parent, settings=settings, inner=inner)
    except BaseException:
        journal.__exit__()
        raise

    def first_events(_: Journal) -> list[Event]:
        if confining.name == "none":
            consents.give(opened, resumed.compiled)
        return [resumed]

    return Run(program, options, name, home, lambda: journal, first_events, blobs)


def fork(name: str, *, at: str | None = None, new_name: str | None = None, workspace: Path | str = WORKSPACE) -> str:
    """Branches from a run: a new one that holds the events before a firing (`fix_code@2`), or all of them.

    Returns the new run's name; go on with it by `resume`. Raises UsageError for an unknown run or firing.
    """
    home = Path(workspace)
    source = journal_path(home, name)
    with Journal.read(source) as journal:
        ended = [seq for seq, _ in journal.events(RunEnded)]
        until = journal.last if journal.last not in ended else journal.last - 1        # the branch has not ended
        if at is not None:
            try:
                parse_firing(at)
            except ValueError as error:
                raise UsageError(str(error)) from None
            fired = {firing_key(event.step, event.round): seq for seq, event in journal.events(Fired)}
            if at not in fired:
                raise UsageError(f"run `{name}` has no firing {at}: {did_you_mean(at, fired)}")
            until = fired[at] - 1
    label = free_name(home, name) if new_name is None else fine_name(new_name)
    if not journal_path(home, label).exists():
        refuse_taken(home, label)
    branch = Journal.copy(source, journal_path(home, label), until)
    branch.__exit__()
    return label


def _created(home: Path, label: str, *, chosen: bool) -> Journal:
    """The journal of a new run; where nobody chose its name and another run took it since, under the next free one."""
    while True:
        try:
            return Journal.create(journal_path(home, label))
        except (RunBusy, UsageError):
            if chosen:
                raise
            label = free_name(home, label)


def _earlier(home: Path | None, from_run: str | None) -> EarlierRun | None:
    return None if from_run is None else EarlierRun(Journal.read(journal_path(home, from_run)), from_run)
