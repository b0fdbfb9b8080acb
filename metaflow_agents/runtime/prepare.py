"""How a SOP is made ready to run: read, checked, with its models and its sandbox, and refused where it can't run.

What `start`, `go_on`, `sop test`, previews and the MCP server do before a run has its inputs, they do by this; see `prepared.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from metaflow_agents.agent import strategies
from metaflow_agents.documents import publishing
from metaflow_agents.errors import NotHere, UsageError, did_you_mean
from metaflow_agents.journal.places import WORKSPACE
from metaflow_agents.models.registry import Given, Sources, resolve
from metaflow_agents.runtime.checking import checked
from metaflow_agents.runtime.needs import Needs
from metaflow_agents.runtime.prepared import Before, Choices, Prepared
from metaflow_agents.runtime.screens import screens_of
from metaflow_agents.sandbox.choice import Unchosen, choose, refuse_unknown
from metaflow_agents.sandbox.engines import engine_of
from metaflow_agents.sandbox.port import Sandbox
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.role import model_for_role
from metaflow_agents.schema.step import Step
from metaflow_agents.settings import Settings
from metaflow_agents.sop.configuration import load_configuration
from metaflow_agents.sop.library import Folders, shipped_recording
from metaflow_agents.sop.load import LoadedSOP
from metaflow_agents.tools.secrets import secrets_of


def prepare(sop: str | Path, *, model: Given | None = None, models: Mapping[str, Given] | None = None,
            sandbox: str | None = None, workspace: Path | str | None = WORKSPACE, settings: Settings | None = None,
            late: bool = False) -> Prepared:
    """Reads and checks a SOP, finds its models and its sandbox, and refuses what can't run, once for any number of runs.

    The options are those of `start` of the same names. What is prepared notices nothing of later edits of the SOP's files.
    Raises SOPInvalid, SOPNotFound, UsageError, ModelMissing; nothing is made.
    """
    settings = settings or Settings.read()
    loaded = checked(sop, settings)
    return ready(loaded, Choices(model, models or {}, sandbox, None if workspace is None else Path(workspace), settings, late))


def ready(loaded: LoadedSOP, choices: Choices) -> Prepared:
    """The same for a SOP that was read and checked. Raises UsageError, ModelMissing."""
    return joined(loaded.program, loaded.folders, choices, loaded=loaded)


def joined(program: Program, place: Folders, choices: Choices, *, loaded: LoadedSOP | None = None,
           before: Before | None = None) -> Prepared:
    """A compiled SOP with its models and its sandbox. `place` is where its file lies, `before` what an earlier sitting had.

    Raises UsageError, ModelMissing.
    """
    settings, before = choices.settings, before or Before()
    needs = {one.fingerprint: Needs.of(one.sop) for one in program.all()}
    given = _given_models([*needs.values()], choices, place.python)
    chosen = {**(before.chosen if choices.model is None else {}), **given}
    folders = {**dict.fromkeys(needs, place.python), **({} if loaded is None else _python_folders(loaded))}
    secrets = {name: secrets_of(one.sop, settings) for name, one in needs.items()}
    sources = {name: Sources(
        given=chosen, written=one.sop.models, settings=settings, folders=folders[name], given_folders=place.python,
        given_written=program.sop.models, home=choices.home, base_url=before.base_url,
        configured=lambda: load_configuration(settings.configuration).models,
        demo=shipped_recording(one.sop.sop) is not None) for name, one in needs.items()}
    resolved = {name: resolve(one.asked, sources[name], one.embedders) for name, one in needs.items()}
    dry = resolved[program.fingerprint].models.dry
    confining = [_sandbox(one, choices, dry=dry) for one in needs.values()]
    if not (dry or choices.late) and (unset := [name for one in secrets.values() for name in one.missing()]):
        listed = ", ".join(f"`{name}`" for name in dict.fromkeys(unset))
        raise NotHere(f"{listed}: {'these secrets are' if ',' in listed else 'this secret is'} not set; `export {unset[0]}=…` "
                      "before the run")
    return Prepared(program, loaded, place.sop, choices, chosen, folders, needs, secrets, screens_of(program), resolved,
                    next((one for one in confining if not isinstance(one, Unchosen)), confining[0]))


def _python_folders(loaded: LoadedSOP) -> dict[str, Sequence[Path]]:
    """Fingerprint of a SOP, and of each SOP in it → the folders of its Python.

    Raises UsageError where two SOPs that are equal word for word lie in different folders: their functions may differ.
    """
    found: dict[str, Sequence[Path]] = {loaded.program.fingerprint: loaded.folders.python}
    for one in loaded.inner.values():
        for fingerprint, folders in _python_folders(one).items():
            if found.setdefault(fingerprint, folders) != folders:
                raise UsageError(f"the same SOP lies in `{folders[0]}` and in `{found[fingerprint][0]}`, and its functions may "
                                 "differ: remove one of the two, or give it another name under `sop:`")
    return found


def _given_models(needs: Sequence[Needs], choices: Choices, folders: Sequence[Path]) -> dict[str, Given]:
    """What somebody gives as models, under the names by which they are looked up: `*` for everybody's, a model's name, or else
    `model_for_role`. Raises UsageError for what no step and no role asks for.
    """
    asked = [one for need in needs for one in need.asked]
    names = list(dict.fromkeys(["default", *(model for _, model in asked if model),
                                *(name for need in needs for name in need.embedders)]))
    roles = list(dict.fromkeys(role for role, model in asked if model is None))
    found: dict[str, Given] = {} if choices.model is None else {"*": choices.model}
    for name, model in choices.models.items():
        own = next((asks for role, asks in asked if role == name), None)
        if name in ("*", *names) or name in {model_for_role(role) for role, _ in asked}:
            found[name] = model
        elif name in roles:
            found[model_for_role(name)] = model
        elif own is not None:
            raise UsageError(f"the role `{name}` asks the model `{own}`: write `--model {own}=…`")
        else:
            raise UsageError(f"no step and no role asks for a model `{name}`: {did_you_mean(name, [*names, *roles])}")
    return {name: _whole(model, folders) if isinstance(model, str) else model for name, model in found.items()}


def _whole(model: str, folders: Sequence[Path]) -> str:
    """A model as a person gives it: a file that does not lie in the SOP's `folders` is one of the current directory, and gets its
    whole path here, so that a resume from elsewhere means the same file.
    """
    form, _, rest = model.partition(":")
    file, separator, more = rest.rpartition(":") if form == "python" else rest.partition(",")
    is_file = file.endswith(".py") if form == "python" else form == "replay" and file.endswith((".jsonl", ".db"))
    place = Path(file).expanduser()
    if not is_file or any((folder / place).is_file() for folder in folders) or not place.is_file():
        return model
    return f"{form}:{place.absolute()}{separator}{more}"


def _sandbox(needs: Needs, choices: Choices, *, dry: bool) -> Sandbox:
    """Where the commands of a SOP are carried out; by default in the sandbox that confines them. Where `choices` are `late` and
    none holds here, that is told by the first command.

    A run without commands has none. Raises UsageError for an unknown name, and where the sandbox does not hold here.
    """
    asked, settings = choices.sandbox, choices.settings
    refuse_unknown(asked)
    commands = [*needs.commands, *([] if dry else _commands_of_strategies(needs.sop.steps))]
    tools = [name for name in needs.tools if name in ("run", "python")]
    documents = [] if dry else _documents(needs)
    if not (commands or tools or documents) or dry:
        return Unchosen(asked or "" if commands or tools else "")
    what_for = f"steps run commands ({', '.join(commands)})" if commands else f"roles run commands (tools: {', '.join(tools)})"
    if not (commands or tools):
        what_for = f"documents are made ({', '.join(documents)})"
    try:
        return choose(asked, settings.command_environment, what_for=what_for, engine=engine_of(settings))
    except NotHere as error:
        if not choices.late:
            raise
        return Unchosen(why=str(error))


def _commands_of_strategies(steps: Mapping[str, Step]) -> Iterable[str]:
    """The steps whose strategies run commands that no SOP wrote. Raises UsageError where what one needs is not installed."""
    known = strategies.known()
    for name, step in steps.items():
        for strategy in step.strategy or {}:
            if missing := strategies.missing(strategy):
                raise UsageError(f"step `{name}` thinks by the strategy `{strategy}`, and {missing}")
        if any(known[strategy].COMMANDS for strategy in step.strategy or {} if strategy in known):
            yield name


def _documents(needs: Needs) -> list[str]:
    """Documents that the run makes. Raises UsageError where what makes them is not installed."""
    made = {step.makes.artifact for step in needs.sop.steps.values()}
    documents = [path for name, spec in needs.sop.artifacts.items() if name in made for path in spec.documents]
    if documents and (lacking := publishing.missing()):
        raise UsageError(f"the SOP writes {', '.join(documents)}, and {lacking}")
    return documents
