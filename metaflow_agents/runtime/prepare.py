"""What a run begins with: its name and place, the SOP as it stands, the values that it is given, and what refuses it.

Everything here is decided before a run makes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from metaflow_agents.agent import strategies
from metaflow_agents.documents import publishing
from metaflow_agents.errors import NotHere, SOPInvalid, SOPNotFound, UsageError, did_you_mean
from metaflow_agents.journal.approvals import Consents
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import WORKSPACE as WORKSPACE
from metaflow_agents.journal.places import fine_name as fine_name
from metaflow_agents.journal.places import free_name as free_name
from metaflow_agents.journal.places import journal_path as journal_path
from metaflow_agents.journal.places import refuse_taken as refuse_taken
from metaflow_agents.journal.places import run_names as run_names
from metaflow_agents.journal.state import RunState
from metaflow_agents.memory.indexes import missing
from metaflow_agents.models.registry import Given, Models, Resolved, Sources, Spec, resolve
from metaflow_agents.policy.package_patterns import PackagePattern
from metaflow_agents.policy.patterns import RuleWritten
from metaflow_agents.runtime.toolsets import CONFINED, used
from metaflow_agents.sandbox.choice import CONFINING, Unchosen, choose, refuse_unknown
from metaflow_agents.sandbox.engines import Engine
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.binary import unloaded
from metaflow_agents.schema.endpoint import EndpointLimits
from metaflow_agents.schema.event import RunOpened
from metaflow_agents.schema.keys import LOOK, parse_firing
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import held, pack
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.role import model_for_role
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Makes, Step
from metaflow_agents.schema.strategies.workers import workers
from metaflow_agents.settings import Settings
from metaflow_agents.sop.changes import changes
from metaflow_agents.sop.check import CheckReport
from metaflow_agents.sop.check import check as check_sop
from metaflow_agents.sop.configuration import load_configuration, read_configuration
from metaflow_agents.sop.library import python_folders, shipped_recording
from metaflow_agents.sop.load import LoadedSOP, Reading, read_sop
from metaflow_agents.sop.naming import runs_commands
from metaflow_agents.steps.given import given_name
from metaflow_agents.tools.known import known_tools

SHOWN = 20                          # names that were left out of a folder


def check(source: str | Path | Reading, *, start: Path | None = None, settings: Settings | None = None) -> CheckReport:
    """Checks a SOP by file or name, or one that was read already.

    `start` is the folder from which names are looked for (default: the current one). Strategies that were registered
    from Python are known, and the models of the user's configuration (that of `settings`, by default this process's).
    Raises SOPNotFound where there is no such SOP; whatever stands in its files is told in `problems`.
    """
    models = read_configuration((settings or Settings.read()).configuration).configuration.models
    return check_sop(source, start=start, strategies=strategies.known(), models=models, missing=missing, tools=known_tools)


def checked(sop: str | Path, settings: Settings | None = None) -> LoadedSOP:
    """A SOP without errors. Raises SOPNotFound, or SOPInvalid with all its problems."""
    reading = read_sop(sop)
    report = check(reading, settings=settings)
    if not report.ok or reading.loaded is None:
        raise SOPInvalid([problem for problem in report.problems if problem.severity == "error"])
    return reading.loaded


def sources(loaded_sop: SOP, chosen: Mapping[str, Given], settings: Settings, folders: Sequence[Path], home: Path | None,
            base_url: str | None = None, given: Sequence[Path] | None = None, named: Mapping[str, Spec] | None = None) -> Sources:
    """Where the models of a run are looked up. `given`: where those of `chosen` lie, if not in the SOP's `folders`; `named`: the
    models of the SOP that `chosen` speaks of, if that is another.
    """
    return Sources(given=chosen, written=loaded_sop.models, settings=settings, folders=folders, given_folders=given, home=home,
                   base_url=base_url, given_written=named or {},
                   configured=lambda: load_configuration(settings.configuration).models,
                   demo=shipped_recording(loaded_sop.sop) is not None)


def typed(given: Mapping[str, Given], folders: Sequence[Path]) -> dict[str, Given]:
    """Models as a person or a program gives them: a file that does not lie in the SOP's `folders` is one of the current
    directory, and gets its whole path here, so that a resume from elsewhere means the same file.
    """
    return {name: _whole(model, folders) if isinstance(model, str) else model for name, model in given.items()}


def _whole(model: str, folders: Sequence[Path]) -> str:
    form, _, rest = model.partition(":")
    file, separator, more = rest.rpartition(":") if form == "python" else rest.partition(",")
    is_file = file.endswith(".py") if form == "python" else form == "replay" and file.endswith((".jsonl", ".db"))
    place = Path(file).expanduser()
    if not is_file or any((folder / place).is_file() for folder in folders) or not place.is_file():
        return model
    return f"{form}:{place.absolute()}{separator}{more}"


def some(names: Sequence[str]) -> tuple[str, ...]:
    """The first of many names, and how many more there are."""
    return (*names[:SHOWN], f"… and {len(names) - SHOWN:,} more") if len(names) > SHOWN else tuple(names)


def folders_of(loaded: LoadedSOP) -> dict[str, Sequence[Path]]:
    """Fingerprint of a SOP, and of each SOP in it → the folders of its Python.

    Raises UsageError where two SOPs that are equal word for word lie in different folders: their functions may differ.
    """
    found: dict[str, Sequence[Path]] = {loaded.program.fingerprint: python_folders(loaded.folder)}
    for one in loaded.inner.values():
        for fingerprint, folders in folders_of(one).items():
            if found.setdefault(fingerprint, folders) != folders:
                raise UsageError(f"the same SOP lies in `{folders[0]}` and in `{found[fingerprint][0]}`, and its functions may "
                                 "differ: remove one of the two, or give it another name under `sop:`")
    return found


def answering(program: Program, resolved: Mapping[str, Resolved], given: Collection[str]) -> dict[str, Any]:
    """What the journal says of who answers, those who answer in sub-SOPs included: the fields that `RunOpened` and `Resumed`
    share. `resolved` is as of `resolved_models`. Of a sub-SOP only what was `given` is kept: what it takes from the user's
    configuration is nothing for the SOP around it, which may write that name itself.
    """
    found = [resolved[one.fingerprint] for one in reversed(list(program.all()))]
    chosen = {name: spec for one in found for name, spec in one.chosen.items() if name in given}
    return {"models": _told(program, resolved), "chosen": {**chosen, **found[-1].chosen},
            "base_url": next((one.base_url for one in found if one.base_url is not None), None)}


def _told(program: Program, resolved: Mapping[str, Resolved]) -> dict[str, str]:
    """Name → model in words; of a sub-SOP `STEP/NAME`, where a name means another model there."""
    told = dict(resolved[program.fingerprint].told)
    inner = {f"{name}/{key}": model for name, step in program.sop.steps.items() if step.sop is not None
             for key, model in _told(program.sops[step.sop], resolved).items()}
    return {**told, **{place: model for place, model in inner.items() if told.get(place.rpartition("/")[2]) != model}}


def embedders(sop: SOP) -> list[str]:
    """The names of the models that embed memories."""
    return list(dict.fromkeys(name for _, _, _, name in embedding(sop)))


def identity(loaded: LoadedSOP) -> dict[str, Any]:
    """What the journal says of the SOP that runs: the fields that `RunOpened` and `Resumed` share."""
    program = loaded.program
    return {"sop": program.fingerprint, "compiled": digest(program.stored()), "entry": loaded.entry,
            "location": str((loaded.folder / Path(loaded.entry).name).resolve()),
            "sources": {shown: digest(text.encode()) for shown, text in loaded.sources.items()}}


def same_identity(journal: Journal, recorded: Program) -> dict[str, Any]:
    """The same fields where the SOP is what it was."""
    return {"sop": recorded.fingerprint, "compiled": journal.state.compiled, "sources": {}}


def sources_of(loaded: LoadedSOP) -> dict[str, bytes]:
    """The compiled SOP and the texts of its files, by digest."""
    texts = [loaded.program.stored(), *(text.encode() for text in loaded.sources.values())]
    return {digest(data): data for data in texts}


def as_it_is_now(opened: RunOpened, recorded: Program,
                 settings: Settings | None = None) -> tuple[LoadedSOP | None, tuple[str, ...]]:
    """The SOP's file as it stands now and what differs; nothing where the file is gone: the journal holds all."""
    try:
        loaded = checked(Path(opened.location), settings)
    except SOPNotFound:
        return None, ()
    return loaded, changes(recorded, loaded.program)


def refuse_lost_steps(sop: SOP, active: Iterable[str]) -> None:
    """Raises UsageError where a firing is under way whose step is gone."""
    for key in active:
        if parse_firing(key)[0] not in (*sop.steps, *([LOOK] if sop.progress is not None else [])):
            raise UsageError(f"{key} is under way, and the SOP has no step `{parse_firing(key)[0]}` any more: put it back, "
                             "or fork before it")


def resolved_models(program: Program, sources_for: Callable[[Program], Sources]) -> dict[str, Resolved]:
    """Fingerprint of the SOP, and of each that is a step → its models. Raises UsageError, ModelMissing."""
    return {one.fingerprint: resolve(
        [(role, model) for _, _, role, model in asking(one.sop)], sources_for(one), embedders(one.sop)) for one in program.all()}


def inner_models(program: Program, resolved: Mapping[str, Resolved]) -> dict[str, Models]:
    """Fingerprint of each SOP that is a step → its models."""
    return {one.fingerprint: resolved[one.fingerprint].models for inner in program.sops.values() for one in inner.all()}


def sandbox_for(program: Program, asked: str | None, settings: Settings, *, dry: bool, late: bool = False) -> Sandbox:
    """Where the commands of a run are carried out, those of SOPs in it too: the first that has some says what for. `late`: where
    none holds here, that is told by the first command. Raises UsageError.
    """
    chosen = (_sandbox_for(one.sop, asked, settings, dry=dry, late=late) for one in program.all())
    found = list(islice(chosen, 1)) if not program.sops else list(chosen)
    return next((one for one in found if not isinstance(one, Unchosen)), found[0])


def _sandbox_for(sop: SOP, asked: str | None, settings: Settings, *, dry: bool, late: bool) -> Sandbox:
    """Where the commands of a run are carried out; by default in the sandbox that confines them.

    A run without commands has none. Raises UsageError for an unknown name, and where the sandbox does not hold here.
    """
    refuse_unknown(asked)
    commands = [name for name, step in sop.steps.items() if runs_commands(step, strategies.known())]
    commands += [] if dry else [name for name, step in sop.steps.items() if _has_commands_of_its_own(name, step)]
    tools = [name for name in used(sop) if name in CONFINED]
    documents = [] if dry else _with_documents(sop)
    if not (commands or tools or documents) or dry:
        return Unchosen(asked or "" if commands or tools else "")
    what_for = f"steps run commands ({', '.join(commands)})" if commands else f"roles run commands (tools: {', '.join(tools)})"
    if not (commands or tools):
        what_for = f"documents are made ({', '.join(documents)})"
    try:
        return choose(asked, settings.command_environment, what_for=what_for, engine=engine_of(settings))
    except NotHere as error:
        if not late:
            raise
        return Unchosen(why=str(error))


def engine_of(settings: Settings) -> Engine:
    """What carries containers out, as the environment says."""
    return Engine(settings.container, settings.container_image, tuple(settings.container_environment.items()))


def _has_commands_of_its_own(name: str, step: Step) -> bool:
    """Whether a step's strategy runs commands that no SOP wrote. Raises UsageError where what it needs is not installed."""
    known = strategies.known()
    for strategy in step.strategy or {}:
        if missing := strategies.missing(strategy):
            raise UsageError(f"step `{name}` thinks by the strategy `{strategy}`, and {missing}")
    return any(known[strategy].COMMANDS for strategy in step.strategy or {} if strategy in known)


def _with_documents(sop: SOP) -> list[str]:
    """Documents that the run makes. Raises UsageError where what makes them is not installed."""
    made = {step.makes.artifact for step in sop.steps.values()}
    documents = [path for name, spec in sop.artifacts.items() if name in made for path in spec.documents]
    if documents and (lacking := publishing.missing()):
        raise UsageError(f"the SOP writes {', '.join(documents)}, and {lacking}")
    return documents


def refuse_unconfined(run: str, state: RunState, consents: Consents) -> None:
    """Raises UsageError for commands without a sandbox that the journal alone speaks for: anybody may have written it."""
    if state.opened is None or not consents.has(state.opened, state.compiled):
        where = "there is no home" if consents.folder is None else f"no mark of it in {consents.folder}"
        raise UsageError(f"by its journal the commands of run `{run}` have the sandbox `none`, and nothing shows that this was "
                         f"said on this machine ({where}): say `--sandbox none` to go on unconfined, if you know the run, or "
                         f"one of {', '.join(CONFINING)} to confine it")


def refuse_unknown_step(sop: SOP, until: str | None) -> None:
    """Raises UsageError for an `until` that names no step."""
    if until is None or until in sop.steps:
        return
    step = re.split(r"[@\[/]", until, maxsplit=1)[0]
    if step in sop.steps:
        raise UsageError(f"`--until {until}`: a run rests after a whole step of its own, and not after a round, an item or a "
                         f"step of a sub-SOP; write `--until {step}`")
    raise UsageError(f"`--until {until}`: there is no such step; {did_you_mean(until, sop.steps)}")


def inner_program(program: Program, steps: Sequence[str]) -> Program:
    """The SOP that steps with `sop:` lead to. Raises UsageError where one is none, naming those that there are."""
    for step in steps:
        sop = program.sop
        entries = [name for name, one in program.sop.steps.items() if one.sop is not None]
        if step not in entries:
            raise UsageError(f"`{step}` is no step with `sop:` of {sop.sop}: "
                             + (did_you_mean(step, entries) if entries else "it has none"))
        program = program.sops[sop.steps[step].sop or ""]
    return program


def given_models(program: Program, everybody: Given | None, models: Mapping[str, Given]) -> dict[str, Given]:
    """What somebody gives as models, under the names by which they are looked up: `*` for everybody's, a model's name, or else
    `model_for_role`. Raises UsageError for what no step and no role asks for.
    """
    asked = [(role, model) for one in program.all() for _, _, role, model in asking(one.sop)]
    names = list(dict.fromkeys(["default", *(model for _, model in asked if model), *(
        name for one in program.all() for name in embedders(one.sop))]))
    roles = list(dict.fromkeys(role for role, model in asked if model is None))
    found: dict[str, Given] = {} if everybody is None else {"*": everybody}
    for name, model in models.items():
        own = next((asks for role, asks in asked if role == name), None)
        if name in ("*", *names) or name in {model_for_role(role) for role, _ in asked}:
            found[name] = model
        elif name in roles:
            found[model_for_role(name)] = model
        elif own is not None:
            raise UsageError(f"the role `{name}` asks the model `{own}`: write `--model {own}=…`")
        else:
            raise UsageError(f"no step and no role asks for a model `{name}`: {did_you_mean(name, [*names, *roles])}")
    return found


def limits(sop: SOP, settings: Settings, models: Models) -> EndpointLimits:
    """What the run's endpoints allow: each limit as the SOP says it, or else the user's configuration."""
    own = sop.limits or EndpointLimits()
    if not models.has_endpoints:
        return own
    configured = load_configuration(settings.configuration).limits or EndpointLimits()
    return configured.model_copy(update=own.model_dump(exclude_none=True))


def allowed_packages(program: Program, names: Sequence[str]) -> tuple[str, ...]:
    """What `--allow` names. Raises UsageError where it is no package, or nothing of the SOP installs any."""
    for name in names:
        try:
            if PackagePattern.read(name).literal is None:
                raise UsageError(f"`--allow {name}` holds a wildcard: name each package, or write the rule into the "
                                 "SOP's `policy`")
        except RuleWritten as fault:
            raise UsageError(f"`--allow {name}`: {fault.message}; write `--allow flask`, or `--allow 'flask[async]'`") from None
    if names and not any(step.tool == "packages" for one in program.all() for step in one.sop.steps.values()):
        raise UsageError(f"`--allow {names[0]}` lets a run install a package, and {program.sop.sop} installs none: it has no "
                         "step with `tool: packages`")
    return tuple(dict.fromkeys(names))


def asking(sop: SOP) -> Iterator[tuple[str, Step, str, str | None]]:
    """Who may ask which model: step, its definition, role, and the name of the model (None: the default)."""
    for step_name, step in sop.steps.items():
        if step.doer == "role":
            for role in workers(sop, step, strategies.known()):
                own = sop.roles[role].model
                for model in (*sop.models, own) if step.model_expression else (step.model if step.model is not None else own,):
                    yield step_name, step, role, model
    yield from _looks(sop)


def embedding(sop: SOP) -> Iterator[tuple[str, Step, str, str]]:
    """Who may ask which model to embed: step, its definition, role, and the name of the model."""
    for step_name, step in sop.steps.items():
        for role in workers(sop, step, strategies.known()) if step.doer == "role" else ():
            recall = sop.roles[role].memory.recall
            if recall is not None and recall.embedder is not None:
                yield step_name, step, role, recall.embedder


def _looks(sop: SOP) -> Iterator[tuple[str, Step, str, str | None]]:
    """The same for looks at the run, as the step that they are in the journal."""
    if sop.progress is not None and sop.progress.role in sop.roles:
        role = sop.progress.role
        yield LOOK, Step(role=role, makes=Makes(artifact=LOOK)), role, sop.roles[role].model


def given_payloads(program: Program, given: Mapping[str, Any] | None, blobs: dict[str, bytes]) -> dict[str, str]:
    """Artifact or step (`NAME@2` in one round, `STEP/NAME` in a sub-SOP) → digest of the value that stands in for the work; the
    payloads go to `blobs`. Raises UsageError.
    """
    found = {}
    for artifact, value in (given or {}).items():
        try:
            *steps, (name, _, _) = given_name(artifact)
        except ValueError as error:
            raise UsageError(str(error)) from None
        sop = inner_program(program, [step.step for step in steps]).sop
        made = dict.fromkeys(name for step, written in sop.steps.items() for name in (written.makes.artifact, step))
        if name not in made:
            raise UsageError(f"a value is given for `{name}`, which no step makes: {did_you_mean(name, made)}")
        try:
            payload, loaded = held(unloaded(value))
            packed = pack(payload)
        except (TypeError, ValueError) as error:
            raise UsageError(f"what is given for `{artifact}` is not JSON: {error}") from None
        found[artifact] = digest(packed)
        blobs |= {**loaded, found[artifact]: packed}
    return found
