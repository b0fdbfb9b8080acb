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
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from metaflow_agents.assembly import Assembly, Options, assemble, run_budget
from metaflow_agents.bus import Bus
from metaflow_agents.engine.earlier import EarlierRun
from metaflow_agents.engine.scheduler import outputs_of
from metaflow_agents.errors import (
    BudgetExceeded,
    JournalError,
    RunError,
    SOPInvalid,
    SOPNotFound,
    UsageError,
    did_you_mean,
)
from metaflow_agents.inputs import read_inputs
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.values import Values
from metaflow_agents.models.registry import Given, resolve
from metaflow_agents.prompts import MISSING
from metaflow_agents.schema.event import Committed, Event, Fired, Outcome, Resumed, RunEnded, RunOpened, Version
from metaflow_agents.schema.keys import firing_key, parse_firing
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Collection, Data, Files, pack
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.validation import validator
from metaflow_agents.settings import Settings
from metaflow_agents.sop.changes import changes
from metaflow_agents.sop.check import check
from metaflow_agents.sop.load import LoadedSOP, read_sop

WORKSPACE = Path("workspace")
JOURNALS = ".journals"
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_STATUS: dict[Outcome, int] = {"success": 0, "until": 0, "failure": 1, "stopped": 1, "budget": 3, "interrupted": 130}


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended and what it made. `outputs`: name → plain value; files are path → text."""

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

    @property
    def ok(self) -> bool:
        """Whether it succeeded (or came to the step named by `until`)."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """What the command ends with: 0, 1, 3 or 130."""
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
        self._joined: Assembly | None = None
        self._task: asyncio.Task[RunEnded] | None = None

    @property
    def _assembly(self) -> Assembly:
        if self._joined is None:
            raise UsageError("the run has not begun: enter it with `async with`")
        return self._joined

    @property
    def bus(self) -> Bus:
        """Subscribe to artifacts, events or a role's inbox; send messages to roles."""
        return self._assembly.bus

    @property
    def journal(self) -> Journal:
        """The run's journal, with its state."""
        return self._assembly.journal

    async def events(self) -> AsyncIterator[Event]:
        """Every event of the run from its first, as it becomes durable, until the run rests."""
        async with self.bus.events(after=0) as events:
            async for _, event in events:
                yield event
                if isinstance(event, RunEnded) and self.journal.state.ended is event:
                    return

    def stop(self) -> None:
        """Cancels the run: its activations end, nothing is left running, and it can be resumed."""
        if self._task is not None:
            self._task.cancel()

    async def result(self) -> RunResult:
        """Waits until the run rests. Raises JournalError where the journal could not be written."""
        if self._task is None:
            raise UsageError("the run has not begun: enter it with `async with`")
        ended = await asyncio.shield(self._task)
        state = self.journal.state
        spent, values = state.total(), self._assembly.values
        found = {name: values.latest(name) for name in outputs_of(self.program.sop, self._assembly.graph)}
        outputs = {name: values.plain(state.payload(name) or "") for name, value in found.items() if value is not MISSING}
        return RunResult(self.name, ended.outcome, ended.reason, outputs, self.folder, spent.calls, spent.tokens,
                         state.elapsed, state.activations, ended.never)

    async def __aenter__(self) -> Self:
        journal = self._open()
        await journal.__aenter__()
        try:
            await journal.append(*self._first(journal), blobs=self._blobs)
            self._joined = assemble(self.program, journal, self._options, folder=self.folder)
        except BaseException:
            await journal.close()
            raise
        self._blobs.clear()
        self._task = asyncio.create_task(self._drive(), name=f"run {self.name}")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._task is not None and not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task])
        finally:
            self.bus.close()
            await self.journal.close()

    async def _drive(self) -> RunEnded:
        """Scheduler and folder side by side; whatever ends them becomes the run's last event."""
        ended = await self._scheduled()
        await self.bus.publish(ended)
        return ended

    async def _scheduled(self) -> RunEnded:
        folder = self._assembly.folder
        left = self._time_left()
        try:
            if folder is not None:
                await folder.settle()
            async with asyncio.timeout(left) as limit:
                follower = None if folder is None else asyncio.create_task(folder.follow(), name="folder")
                try:
                    ended = await self._beside(follower)
                finally:
                    if follower is not None:
                        follower.cancel()
                        await asyncio.wait([follower])
            if folder is not None:
                await folder.settle()
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
        except RunError as error:
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
                await asyncio.wait([scheduled])

    def _time_left(self) -> float | None:
        state = self.journal.state
        cap = run_budget(self.program, state.budget).time
        return None if cap is None else max(cap - state.elapsed, 0.0)


async def run(sop: str | Path, /, **options: Any) -> RunResult:
    """Runs a SOP to its end, as in `result = await run("letters.yaml", letter=text, model=my_function)`.

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
    budget: Mapping[str, float] | None = None,
    given: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    **more_inputs: Any,
) -> Run:
    """A new run, to be entered with `async with`.

    `model` answers for every role (a name such as `dry`, or a function that gets the request), `models` for the names
    that the SOP gives. Inputs are keywords, or stand in `inputs`. `workspace` is where runs lie; None keeps journal and
    files in memory. `until` is a step after which the run rests, `from_run` a run whose unchanged activations are taken
    over, `sandbox="none"` lets commands run unconfined, `budget` caps `tokens`, `calls` and `time` (seconds), `given`
    maps artifacts to values that stand in for the work of their steps.
    Raises SOPInvalid, SOPNotFound, UsageError, ModelMissing; nothing has been made then.
    """
    settings = settings or Settings.read()
    loaded = checked(sop)
    program, folders = loaded.program, [loaded.folder, Path.cwd()]
    chosen: dict[str, Given] = {**({"*": model} if model is not None else {}), **(models or {})}
    resolved, told = resolve(model_names(program.sop), program.sop.models, chosen, folders, settings.sop_model)
    _unconfined(program.sop, sandbox, dry=resolved.dry)
    _known_step(program.sop, until)
    payloads, blobs = read_inputs(program, {**(inputs or {}), **more_inputs})
    home = None if workspace is None else Path(workspace)
    earlier = _earlier(home, from_run)
    label = _free_name(home, program.sop.sop) if name is None else _fine_name(name)
    blobs.update(_blobs(loaded))
    opened = RunOpened(
        run=label, **_identity(loaded), models=told, sandbox=sandbox or "", until=until, budget=dict(budget or {}),
        given=_given(given, blobs), reused_from=from_run, package=installed("metaflow-agents"))
    versions = {**payloads, **_initial(program, blobs)}
    first = Committed(versions=tuple(Version(artifact=a, number=1, payload=p) for a, p in versions.items()))
    options = Options(models=resolved, folders=folders, given=dict(given or {}), earlier=earlier, settings=settings)

    def journal() -> Journal:
        return Journal.in_memory() if home is None else Journal.create(journal_path(home, label))

    return Run(program, options, label, home, journal, lambda _: [opened, first], blobs)


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
    budget: Mapping[str, float] | None = None,
    until: str | None = None,
    accept_changes: bool = False,
    reask: bool = False,
    settings: Settings | None = None,
) -> Run:
    """A run gone on with, to be entered with `async with`: after a crash, a cap, a failure, or an `until`.

    The models are those that it had unless others are given. Where the SOP's file means something else now, what
    changed is told, and only `accept_changes` goes on with it. `reask` pays again for calls whose prompt changed.
    Raises UsageError, RunBusy, SOPInvalid, ModelMissing; nothing is changed then.
    """
    settings = settings or Settings.read()
    home = Path(workspace)
    journal = Journal.open(journal_path(home, name))
    try:
        state = journal.state
        opened = state.opened
        if opened is None:
            raise UsageError(f"run `{name}` was killed before it began: remove {journal.path} and run the SOP again")
        if state.ended is not None and state.ended.outcome == "success":
            raise UsageError(f"run `{name}` has succeeded: there is nothing to go on with; `sop fork` branches from it")
        recorded = Program.model_validate_json(journal.blob(state.compiled))
        loaded, told = _as_it_is_now(opened, recorded)
        if told and not accept_changes:
            listed = "\n".join(f"  {change}" for change in told)
            raise UsageError(f"the SOP of run `{name}` changed since it ran:\n{listed}\n"
                             "`--accept-changes` goes on with it as it is now; undo the changes to go on as it was")
        program = recorded if loaded is None or not told else loaded.program
        folders = [Path(opened.location).parent, Path.cwd()]
        chosen: dict[str, Given] = {**state.models, **({"*": model} if model is not None else {}), **(models or {})}
        resolved, names = resolve(model_names(program.sop), program.sop.models, chosen, folders, settings.sop_model)
        _unconfined(program.sop, opened.sandbox or None, dry=resolved.dry)
        _known_step(program.sop, until)
        _still_there(program.sop, state.active)
        values = Values(journal.blob, state)
        given = {artifact: values.plain(payload) for artifact, payload in opened.given.items()}
        resumed = Resumed(**(_identity(loaded) if loaded is not None and told else _same(journal)), changes=told,
                          models=names, until=until, budget=dict(budget or {}))
        blobs = _blobs(loaded) if loaded is not None and told else {}
        options = Options(models=resolved, folders=folders, given=given, earlier=_earlier(home, opened.reused_from),
                          reask=reask, settings=settings)
    except BaseException:
        journal.__exit__()
        raise
    return Run(program, options, name, home, lambda: journal, lambda _: [resumed], blobs)


def fork(name: str, *, at: str | None = None, new_name: str | None = None, workspace: Path | str = WORKSPACE) -> str:
    """Branches from a run: a new one that holds the events before a firing (`fix_code@2`), or all of them.

    Returns the new run's name; go on with it by `resume`. Raises UsageError for an unknown run or firing.
    """
    home = Path(workspace)
    source = journal_path(home, name)
    with Journal.read(source) as journal:
        until = journal.last
        if at is not None:
            try:
                parse_firing(at)
            except ValueError as error:
                raise UsageError(str(error)) from None
            fired = {firing_key(event.step, event.round): seq for seq, event in journal.events(Fired)}
            if at not in fired:
                raise UsageError(f"run `{name}` has no firing {at}: {did_you_mean(at, fired)}")
            until = fired[at] - 1
    label = _free_name(home, name) if new_name is None else _fine_name(new_name)
    branch = Journal.copy(source, journal_path(home, label), until)
    branch.__exit__()
    return label


def journal_path(home: Path | None, name: str) -> Path:
    """Where a run's journal lies. Raises UsageError for a name that can't be a run's."""
    if home is None:
        raise UsageError("a run that is kept in memory has no journal file; give it a workspace")
    return home / JOURNALS / f"{_fine_name(name)}.db"


def run_names(workspace: Path | str = WORKSPACE) -> list[str]:
    """The runs of a workspace, by name."""
    return sorted(path.stem for path in (Path(workspace) / JOURNALS).glob("*.db"))


def checked(sop: str | Path) -> LoadedSOP:
    """A SOP without errors. Raises SOPNotFound, or SOPInvalid with all its problems."""
    reading = read_sop(sop)
    report = check(reading)
    if not report.ok or reading.loaded is None:
        raise SOPInvalid([problem for problem in report.problems if problem.severity == "error"])
    return reading.loaded


def model_names(sop: SOP) -> list[str | None]:
    """The model names that the role steps of a SOP use; None is the default."""
    found: list[str | None] = []
    for step in sop.steps.values():
        if step.doer == "role":
            roles = [sop.roles[step.role]] if step.role in sop.roles else list(sop.roles.values())
            found += [step.model] if step.model is not None else [role.model for role in roles]
    return list(dict.fromkeys(found))


def _identity(loaded: LoadedSOP) -> dict[str, Any]:
    program = loaded.program
    return {"sop": program.fingerprint, "compiled": digest(program.stored()), "entry": loaded.entry,
            "location": str((loaded.folder / Path(loaded.entry).name).resolve()),
            "sources": {shown: digest(text.encode()) for shown, text in loaded.sources.items()}}


def _same(journal: Journal) -> dict[str, Any]:
    state = journal.state
    opened = state.opened
    return {} if opened is None else {"sop": opened.sop, "compiled": state.compiled, "sources": {}}


def _blobs(loaded: LoadedSOP) -> dict[str, bytes]:
    texts = [loaded.program.stored(), *(text.encode() for text in loaded.sources.values())]
    return {digest(data): data for data in texts}


def _as_it_is_now(opened: RunOpened, recorded: Program) -> tuple[LoadedSOP | None, tuple[str, ...]]:
    """The SOP's file as it stands now and what differs; nothing where the file is gone: the journal holds all."""
    try:
        loaded = checked(Path(opened.location))
    except SOPNotFound:
        return None, ()
    return loaded, changes(recorded, loaded.program)


def _still_there(sop: SOP, active: Mapping[str, Any]) -> None:
    for key, firing in active.items():
        if firing.step not in sop.steps:
            raise UsageError(f"{key} is under way, and the SOP has no step `{firing.step}` any more: put it back, "
                             "or fork before it")


def _unconfined(sop: SOP, sandbox: str | None, *, dry: bool) -> None:
    commands = [name for name, step in sop.steps.items() if step.run is not None or (step.check and step.check.run)]
    if commands and sandbox is None and not dry:
        raise UsageError(f"steps run commands ({', '.join(commands)}), and no sandbox is built in this version: "
                         "`--sandbox none` runs them unconfined, on copies of the run's files")
    if sandbox not in (None, "none"):
        raise UsageError(f"there is no sandbox `{sandbox}` in this version: there is: none")


def _known_step(sop: SOP, until: str | None) -> None:
    if until is not None and until not in sop.steps:
        raise UsageError(f"`--until {until}`: there is no such step; {did_you_mean(until, sop.steps)}")


def _earlier(home: Path | None, from_run: str | None) -> EarlierRun | None:
    return None if from_run is None else EarlierRun(Journal.read(journal_path(home, from_run)), from_run)


def _given(given: Mapping[str, Any] | None, blobs: dict[str, bytes]) -> dict[str, str]:
    found = {}
    for artifact, value in (given or {}).items():
        packed = pack(Data(value=value))
        found[artifact] = digest(packed)
        blobs[found[artifact]] = packed
    return found


def _initial(program: Program, blobs: dict[str, bytes]) -> dict[str, str]:
    """Version 1 of every artifact with `initial`."""
    found = {}
    for name, spec in program.sop.artifacts.items():
        if spec.has_initial:
            packed = pack(initial_payload(program, name, blobs))
            found[name] = digest(packed)
            blobs[found[name]] = packed
    return found


def initial_payload(program: Program, name: str, blobs: dict[str, bytes]) -> Data | Files | Collection:
    """The payload of an artifact's `initial`: data, path → text, or key → value."""
    spec = program.sop.artifacts[name]
    if spec.files:
        for text in spec.initial.values():
            blobs[digest(text.encode())] = text.encode()
        return Files(patterns=spec.files, files={path: digest(text.encode()) for path, text in sorted(spec.initial.items())})
    check_value = validator(program.schemas.get(name, {"type": "string"}), name).validate
    if spec.each is None:
        return Data(value=check_value(spec.initial))
    items = []
    for key, value in spec.initial.items():
        packed = pack(Data(value=check_value(value)))
        blobs[digest(packed)] = packed
        items.append((key, digest(packed)))
    return Collection(items=tuple(items))


def _fine_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} can't be a run's name: letters, digits, `.`, `_` and `-`, 100 at most")
    return name


def _free_name(home: Path | None, base: str) -> str:
    if home is None:
        return base
    base = re.sub(r"-\d+$", "", base)
    number = 1
    while (home / JOURNALS / f"{base}-{number}.db").exists():
        number += 1
    return f"{base}-{number}"
