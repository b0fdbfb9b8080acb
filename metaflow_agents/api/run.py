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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from time import time
from typing import Any

from metaflow_agents.errors import ModelMissing, RunSucceeded, SOPInvalid, SOPNotFound, UsageError, did_you_mean
from metaflow_agents.journal.approvals import Consents
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.keeping import kept_values, overlooked
from metaflow_agents.journal.lock import refuse_busy
from metaflow_agents.journal.places import WORKSPACE, fine_name, free_name, journal_path, never_began, refuse_taken, run_names
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.models.registry import Given
from metaflow_agents.questions.broker import Asker
from metaflow_agents.runtime.checking import checked
from metaflow_agents.runtime.earlier import models_of, taken_over
from metaflow_agents.runtime.handle import Beginning, Run, RunResult, new_journal
from metaflow_agents.runtime.input_files import Remote
from metaflow_agents.runtime.inputs import added, labels, read_inputs, stand_ins, versions
from metaflow_agents.runtime.plugins_used import refuse_lost, replaced
from metaflow_agents.runtime.prepare import joined, prepare
from metaflow_agents.runtime.prepared import Before, Choices, Prepared
from metaflow_agents.sandbox.choice import CONFINING
from metaflow_agents.schema.address import Address, parse_address
from metaflow_agents.schema.event import Committed, Event, Fired, Resumed, RunEnded, RunOpened
from metaflow_agents.schema.keys import LOOK, firing_key, parse_firing
from metaflow_agents.schema.program import Program
from metaflow_agents.settings import Settings
from metaflow_agents.sop.changes import changes
from metaflow_agents.sop.library import Folders
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.steps.repeats import asked_in


async def run(sop: str | Path | Prepared, /, **options: Any) -> RunResult:
    """Begins a run of a SOP and waits for its end.

    The options are those of `start`. Raises SOPInvalid, UsageError, ModelMissing before anything is made; how the run
    itself ended stands in the result.
    """
    async with start(sop, **options) as going:
        return await going.result()


def run_sync(sop: str | Path | Prepared, /, **options: Any) -> RunResult:
    """`run` for programs without an event loop; under a running one (a notebook) it works in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(sop, **options))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="run_sync") as pool:
        return pool.submit(lambda: asyncio.run(run(sop, **options))).result()


def start(
    sop: str | Path | Prepared,
    /,
    *,
    model: Given | None = None,
    models: Mapping[str, Given] | None = None,
    inputs: Mapping[str, Any] | None = None,
    name: str | None = None,
    workspace: Path | str | None = WORKSPACE,
    until: str | None = None,
    from_run: str | None = None,
    keep_from: str | None = None,
    sandbox: str | None = None,
    budget: Mapping[str, float | str] | None = None,
    given: Mapping[str, Any] | None = None,
    staged: bool = False,
    late: bool = False,
    everything: bool = False,
    allow: Sequence[str] = (),
    yes: bool = False,
    asker: Asker | None = None,
    settings: Settings | None = None,
    remote: Remote | None = None,
    recorded: Path | None = None,
    **more_inputs: Any,
) -> Run:
    """A new run, to be entered with `async with`.

    `sop` is a file, a name, or what `prepare` made of one; then `model`, `models`, `sandbox`, `workspace`, `settings` and `late`
    are chosen already, and giving one here is a UsageError.
    `model` answers for every role (a name such as `dry`, or a function that gets the request), `models` for the names that
    the SOP gives. Inputs are keywords, or stand in `inputs`. `workspace` is the directory of the runs; None keeps journal and
    files in memory. `until` is a step after which the run rests, `from_run` a run whose unchanged activations are taken over,
    and what it was given for inputs that are not given now; `keep_from` the run from which inputs with `keep` are read, or
    `"none"`; `sandbox` is where commands run:
    `"bubblewrap"`, `"landlock"`, `"container"` (the default is the first that holds), or
    `"none"`, which does not confine them; `budget` caps
    `usd`, `tokens`, `calls` and `time` (seconds), `given` maps artifacts to values that stand in for the work of their steps
    (`write/text`: in the SOP that `write` is). `staged`: acting tools only tell what they would do. `late`: a secret that is not
    set, and that no sandbox holds here, stops the run where it is used, and not before (for tests, which may never come to it).
    `everything`: folders are read whole, with keys and what their `.gitignore` names. `allow`: packages that its
    `tool: packages` steps may install, as if the SOP's policy allowed them.
    `asker` asks a person a question that the run has (an async function: the question and its number → an
    answer, or None for "not now"); without one the run waits for `sop answer`. `yes` approves and allows what would be asked
    about, never what is denied. `remote` is the client of a server who hands in the inputs: another party than the user,
    whose files and trust it does not have. `recorded` is a recording: what commands, tools and functions gave in it stands for
    them where all that they depend on is equal.
    Raises SOPInvalid, SOPNotFound, UsageError, ModelMissing; nothing has been made then.
    """
    if recorded is not None and from_run is not None:
        raise UsageError(f"`--demo` takes results over from a recording and `--from {from_run}` from a run: leave one of them "
                         "out")
    try:
        prepared = _prepared(sop, model=model, models=models, sandbox=sandbox, workspace=workspace, settings=settings, late=late)
    except ModelMissing as error:
        had = "" if from_run is None or workspace is None or model is not None or models else models_of(Path(workspace), from_run)
        if not had:
            raise
        raise ModelMissing(f"{had}{error}") from None
    program, home = prepared.program, prepared.choices.home
    over, allowed = prepared.capped(budget, until), prepared.allowed(allow)
    options = prepared.options(given=dict(given or {}), asker=asker, yes=yes)
    label = prepared.free_name() if name is None else fine_name(name)
    if home is not None and not journal_path(home, label).exists():
        refuse_taken(home, label)
    handed = {**(inputs or {}), **more_inputs}
    kept = kept_values(home, program.sop, handed, keep_from=keep_from, from_run=from_run)
    taken = read_inputs(program, handed, prepared.load, remote, everything=everything, kept=kept)
    initial, texts = prepared.initial
    blobs = {**taken.blobs, **texts, **prepared.sources}
    opened = RunOpened(
        run=label, **prepared.identity, **prepared.told, until=until, budget=over,
        given=stand_ins(program, given or {}, blobs), reused_from=from_run,
        recorded="" if recorded is None else str(recorded.resolve()),
        package=_package(), plugins=prepared.plugins, allowed=allowed, staged=staged, functions=prepared.functions,
        **taken.told(), kept={name: one.source for name, one in kept.items()})
    first = Committed(versions=versions({**taken.payloads, **initial}, taken.untrusted))
    options = taken_over(options, home, from_run, opened.recorded, program.sop.steps)

    def begun(label: str) -> list[Event]:
        named = opened.model_copy(update={"run": label, "at": time()})
        if home is None:
            return [named, first]
        if keep_from is None and from_run is None:          # as late as can be: another may begin meanwhile
            named = named.model_copy(update={"kept_without": overlooked(home, program.sop, handed, kept)})
        if opened.sandbox == "none":        # before the event: a kill in between loses nothing
            Consents(prepared.choices.settings.consents).give(named, named.compiled)
        return [named, first]

    begins = Beginning(program, options, begun, blobs)
    return Run(label, home, begins, partial(new_journal, home, label, begins, chosen=name is not None))


def _prepared(sop: str | Path | Prepared, **choices: Any) -> Prepared:
    """A SOP ready to run, by the options of `start` that choose who does the work and where. Raises UsageError where one of them
    is given for what is prepared already.
    """
    if isinstance(sop, Prepared):
        usual = dict.fromkeys(choices, None) | {"workspace": WORKSPACE, "late": False}
        for name, value in choices.items():
            if value is not usual[name]:
                raise UsageError(f"`{name}` is chosen when a SOP is prepared: write `prepare(…, {name}=…)`, or give `start` the "
                                 "SOP's file")
        return sop
    return prepare(sop, **choices)


async def resume(name: str, **options: Any) -> RunResult:
    """Resumes a run to its end. The options are those of `go_on`."""
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
    """A resumed run, to be entered with `async with`: after a crash, a cap, a failure, or an `until`.

    Models and sandbox are those that it had unless others are given; `sandbox="none"` has to be given again where that was not
    done on this machine. Where the SOP's file means something else now, what changed is told, and only `accept_changes` goes on
    with it. `reask` pays again for calls whose prompt changed. `yes` and `asker` are as for `start`.
    The run is locked once it is entered; what somebody else did with it in between is taken up then.
    Raises UsageError (RunSucceeded, where nothing is left to do), RunBusy, SOPInvalid, ModelMissing; nothing is changed then.
    """
    path = journal_path(Path(workspace), name)
    choices = Choices(model, models or {}, sandbox, Path(workspace), settings or Settings.read())
    asked = _Asked(budget, until, accept_changes, reask, asker, yes)
    sitting = partial(_sitting, name, Path(workspace), choices, asked)
    with Journal.read(path) as read:
        refuse_busy(path)
        foreseen = sitting(read)

    def opening() -> tuple[Journal, Beginning]:
        journal = Journal.open(path, read)
        if journal.last == journal.known:
            return journal, foreseen
        try:                                    # somebody else went on with it in between
            if foreseen.options.earlier is not None:
                foreseen.options.earlier.close()
            return journal, sitting(journal)
        except BaseException:
            journal.__exit__()
            raise

    return Run(name, Path(workspace), foreseen, opening)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of one sitting of a run: see `go_on`."""

    budget: Mapping[str, float | str] | None
    until: str | None
    accept_changes: bool
    reask: bool
    asker: Asker | None
    yes: bool


def _sitting(name: str, home: Path, choices: Choices, asked: _Asked, journal: Journal) -> Beginning:
    """What a run goes on with, as its journal stands. Nothing is changed. Raises what `go_on` does."""
    settings, state = choices.settings, journal.state
    consents, opened = Consents(settings.consents), state.opened
    if opened is None:
        raise never_began(name)
    if state.ended is not None and state.ended.outcome == "success":
        raise RunSucceeded(f"run `{name}` has succeeded: there is nothing to go on with; `sop fork` branches from it")
    recorded = Program.model_validate_json(journal.blob(state.compiled))
    loaded, told = _as_it_is_now(name, state, recorded, settings, accept_changes=asked.accept_changes)
    if told and not asked.accept_changes:
        listed = "\n".join(f"  {change}" for change in told)
        raise UsageError(f"the SOP of run `{name}` changed since it ran:\n{listed}\n"
                         "`--accept-changes` goes on with it as it is now; undo the changes to go on as it was")
    program = recorded if loaded is None or not told else loaded.program
    prepared = joined(program, Folders(Path(opened.location).parent), replace(
        choices, sandbox=choices.sandbox or state.sandbox or None), loaded=loaded, before=Before(state.chosen, state.base_url))
    confining = prepared.sandbox
    if confining.name == "none" and not choices.sandbox and not consents.has(opened, state.compiled):
        where = "there is no home" if consents.folder is None else f"no mark of it in {consents.folder}"
        raise UsageError(f"by its journal the commands of run `{name}` have the sandbox `none`, and nothing shows that this was "
                         f"said on this machine ({where}): say `--sandbox none` to go on unconfined, if you know the run, or "
                         f"one of {', '.join(CONFINING)} to confine it")
    for key in state.active:
        if (step := parse_firing(key)[0]) not in (*program.sop.steps, *([LOOK] if program.sop.progress is not None else [])):
            raise UsageError(f"{key} is under way, and the SOP has no step `{step}` any more: put it back, or fork before it")
    over = prepared.capped(asked.budget, asked.until, state.budget)
    values = Values(journal.blob, state)
    given = {artifact: values.plain(payload) for artifact, payload in opened.given.items()}
    which = prepared.identity if told else {"sop": recorded.fingerprint, "compiled": state.compiled, "sources": {}}
    uses = prepared.plugins
    resumed = Resumed(**which, **prepared.told, changes=told, until=asked.until, budget=over,
                      plugins=uses if uses or state.plugins else None, replaced=replaced(state.plugins, uses))
    new, more = added(program, [*state.versions], prepared.load) if told else ({}, {})
    left = opened.reused_from if opened.reused_from in run_names(home) else None        # or it was removed since
    own = prepared.options(given=given, reask=asked.reask, asker=asked.asker, yes=asked.yes)
    options = taken_over(own, home, left, opened.recorded, program.sop.steps)
    if options.effects is not None:
        options.effects.recall(journal, asked_in(journal))

    def first_events(_: str) -> list[Event]:
        if confining.name == "none":
            consents.give(opened, resumed.compiled)
        return [resumed, *([Committed(versions=versions(new, labels(program, ())))] if new else [])]

    return Beginning(program, options, first_events, {**(prepared.sources if told else {}), **more})


def _firing(name: str, at: str, fired: Mapping[str, int]) -> str:
    """The firing that `at` names. Raises UsageError for all else that an address may name, and says what to write."""
    try:
        first, *inner = parse_address(at)
    except ValueError as error:
        raise UsageError(f"{error}; a run branches before a firing, like fix_code@2") from None
    own = [key for key in fired if first.covers(Address(*parse_firing(key), first.item))]
    if own and (inner or first.item is not None or first.round is None):
        raise UsageError(f"a run branches before a whole firing of its own step, and `{at}` is {_kind(inner, first)}: write "
                         + ", or ".join(f"`{key}`" for key in own))
    if not own:
        raise UsageError(f"run `{name}` has no firing {at}: {did_you_mean(at, fired)}")
    return own[0]


def _kind(inner: Sequence[Address], first: Address) -> str:
    return "a step of a sub-SOP" if inner else "one of its items" if first.item is not None else "a step without a round"


def _as_it_is_now(name: str, state: RunState, recorded: Program, settings: Settings, *,
                  accept_changes: bool) -> tuple[LoadedSOP | None, tuple[str, ...]]:
    """The SOP's file as it stands now and what differs; nothing where the file is gone: the journal holds all.

    Raises UsageError where an installed package that the run uses is gone, unless the SOP was changed so that it does without,
    and that is accepted.
    """
    assert state.opened is not None
    if not accept_changes:
        refuse_lost(name, state.plugins)
    loaded: LoadedSOP | None = None
    told: tuple[str, ...] = ()
    try:
        loaded = checked(Path(state.opened.location), settings)
        told = changes(recorded, loaded.program)
    except SOPInvalid:
        refuse_lost(name, state.plugins)
        raise
    except SOPNotFound:
        pass
    if not told:
        refuse_lost(name, state.plugins)
    return loaded, told


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
            fired = {firing_key(event.step, event.round): seq for seq, event in journal.events(Fired)}
            until = fired[_firing(name, at, fired)] - 1
    label = free_name(home, name) if new_name is None else fine_name(new_name)
    if not journal_path(home, label).exists():
        refuse_taken(home, label)
    branch = Journal.copy(source, journal_path(home, label), until)
    branch.__exit__()
    return label


@cache
def _package() -> str:
    """The version that is installed, as it was when it was first asked for: what runs in this process."""
    return version("metaflow-agents")
