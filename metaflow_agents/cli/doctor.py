"""`sop doctor`: what is installed, and whether it holds."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from metaflow_agents.cli.options import WORKSPACE, Json, Workspace
from metaflow_agents.cli.output import page, say, say_json

if TYPE_CHECKING:
    from metaflow_agents.sandbox.probe import SandboxHolding
    from metaflow_agents.schema.endpoint import EndpointModel
    from metaflow_agents.schema.sop import Configuration
    from metaflow_agents.settings import Settings

_STYLES = {"ok": "green", "note": "yellow", "bad": "red"}


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing that was looked at. `bad` keeps runs from working; `note` is worth knowing."""

    what: str
    state: Literal["ok", "note", "bad"]
    said: str


def doctor(workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Check the installation. Exit status 1 if something prevents runs."""
    from metaflow_agents.views.page import table

    found = [_python(), _package(), _sqlite(), _libyaml(), _workspace(workspace), *_open_to_others(workspace), *_models(),
             *_sandboxes(one_by_one=json), _documents(), *_checkups(), *_plugins()]
    if json:
        say_json([asdict(finding) for finding in found])
    else:
        say(table([[one.state, one.what, one.said] for one in found], page(), styles={0: lambda state: _STYLES.get(state, "")}))
    return 1 if any(one.state == "bad" for one in found) else 0


def _python() -> Checkup:
    fine = sys.version_info >= (3, 11)
    return Checkup("python", "ok" if fine else "bad", platform.python_version() + ("" if fine else "; 3.11 or newer is needed"))


def _package() -> Checkup:
    from importlib.metadata import version

    from metaflow_agents.sop.library import shipped_folder

    count = sum(".schema" not in file.suffixes for file in shipped_folder("sops").glob("*.yaml"))
    said = f"{version('metaflow-agents')}, {count} SOPs in {shipped_folder('sops')}"
    return Checkup("package", "ok" if count else "bad", said if count else f"{said}: install the package again")


def _sqlite() -> Checkup:
    from metaflow_agents.journal.run_summary import SQLITE

    fine = tuple(int(part) for part in SQLITE.split(".")) >= (3, 38)        # json_extract is built in since
    return Checkup("sqlite", "ok" if fine else "bad", SQLITE + ("" if fine else "; 3.38 or newer is needed"))


def _libyaml() -> Checkup:
    from metaflow_agents.sop.reading import FAST

    return Checkup("libyaml", "ok" if FAST else "note", "in use" if FAST else "missing: SOPs are read some ten times slower")


def _workspace(workspace: Path) -> Checkup:
    nearest = next(folder for folder in (workspace.absolute(), *workspace.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        return Checkup("workspace", "bad", f"{nearest} is no folder: give another `--workspace`")
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Checkup("workspace", "bad", f"{nearest} can't be written: mend its permissions, or give another `--workspace`")
    made = "" if workspace.exists() else " (made at the first run)"
    return Checkup("workspace", "ok", f"{workspace}{made}")


def _open_to_others(workspace: Path) -> list[Checkup]:
    """Journals and memory files of older versions; those of this one are 0600."""
    from metaflow_agents.journal.places import JOURNALS
    from metaflow_agents.journal.private import open_to_others
    from metaflow_agents.memory.store import PLACE

    folders = [workspace / JOURNALS, (workspace / PLACE).parent]
    found = [path for folder in folders for path in open_to_others(folder)]
    if not found:
        return []
    names = " ".join(shlex.quote(str(folder)) for folder in dict.fromkeys(path.parent for path in found))
    return [Checkup("private", "note", f"{len(found)} files with prompts and answers can be read by others, like {found[0]}: "
                                       f"`chmod -R go= {names}`")]


def _models() -> list[Checkup]:
    """The user's configuration, and who answers where neither a SOP nor the command line says."""
    from metaflow_agents.settings import Settings
    from metaflow_agents.sop.configuration import read_configuration

    settings = Settings.read()
    read = read_configuration(settings.configuration)
    names = ", ".join(read.configuration.models)
    if read.problems:
        first = read.problems[0]
        more = f" (and {len(read.problems) - 1} more)" if len(read.problems) > 1 else ""
        own = Checkup("configuration", "bad", f"{first.place}: {first.message}{more}; {first.mend}")
    elif read.there:
        limits = "; limits" if read.configuration.limits is not None else ""
        own = Checkup("configuration", "ok", f"{settings.configuration}: {f'models {names}' if names else 'no models'}{limits}")
    else:
        place = f"; it would be {settings.configuration}" if settings.configuration else ""
        own = Checkup("configuration", "ok", f"none{place}")
    return [own, _default(settings, read.configuration), _keys(settings)]


def _told(model: str | EndpointModel) -> str:
    """A configured model, and where it is asked if it says so."""
    if isinstance(model, str):
        return model
    name = f"python:{model.python}" if model.python is not None else f"openai:{model.name}"
    return name if model.endpoint is None else f"{name} at {model.endpoint}"


def _default(settings: Settings, configuration: Configuration) -> Checkup:
    if settings.sop_model:
        return Checkup("model", "ok", f"SOP_MODEL is {settings.sop_model}")
    default = configuration.models.get("default")
    if default is not None:
        return Checkup("model", "ok", f"{_told(default)}, of your configuration")
    return Checkup("model", "note", "none is configured: `--model openai:NAME` asks an endpoint; `dry`, `python:…`, `replay:…` "
                                    "and `manual` need none")


def _keys(settings: Settings) -> Checkup:
    """Which variables are set, and where that sends a model that names no endpoint; never what a key is."""
    from metaflow_agents.schema.endpoint import url_fault

    key = f"OPENAI_API_KEY is {'set' if settings.openai_api_key else 'not set'}"
    url = settings.openai_base_url
    if url is None:
        return Checkup("endpoint", "ok" if settings.openai_api_key else "note", f"of a model that names none: OpenAI's; {key}")
    fault = url_fault(url)
    if fault is not None:
        return Checkup("endpoint", "bad", f"OPENAI_BASE_URL: {fault[0]}; {fault[1]}")
    return Checkup("endpoint", "ok", f"of a model that names none: OPENAI_BASE_URL, {url}; {key}")


def _sandboxes(*, one_by_one: bool) -> list[Checkup]:
    """Each sandbox that confines, and which of them a run has where none is named. `one_by_one`: with each attempt that was
    refused; else their number.
    """
    from metaflow_agents.sandbox.choice import CONFINING, looked_at
    from metaflow_agents.sandbox.engines import engine_of
    from metaflow_agents.settings import Settings

    settings = Settings.read()
    engine = engine_of(settings)
    found = {name: looked_at(name, settings.command_environment, engine) for name in CONFINING}
    first = next((name for name in CONFINING if found[name].program is not None), None)
    if first is None:
        used = Checkup("sandbox", "note", "none holds: commands run with `--sandbox none` only; what each lacks follows")
    else:
        used = Checkup("sandbox", "ok", f"{first} is used, unless `--sandbox` names another")
    return [used, *(finding for name, one in found.items() for finding in _confining(name, one, one_by_one=one_by_one))]


def _confining(name: str, found: SandboxHolding, *, one_by_one: bool) -> list[Checkup]:
    """Whether it holds, and the ways out that a command tried in it: each that was not refused has a line of its own."""
    from metaflow_agents.sandbox.cgroup import group_parent

    refused = [Checkup("refused", "ok", f"{name}: {what}") for what, held in found.attempts if held]
    open_ = [Checkup("not refused", "note", f"{name}: {what}") for what, held in found.attempts if not held]
    if refused and not one_by_one:
        refused = [Checkup("refused", "ok", f"{name}: {len(refused)} of {len(found.attempts)} attempts to get out; `sop doctor "
                                            "--json` lists them")]
    attempts = [*refused, *open_]
    if found.program is None:
        return [Checkup(name, "note", f"does not work: {found.why}; fix: {found.mend}"), *attempts]
    if name == "container":
        return [Checkup(name, "ok", f"works ({found.program}, image {found.image})"), *attempts]
    parent = group_parent()
    limits = f"control groups in {parent}" if parent else "a watchdog (no control group, version 2, may be made here)"
    return [Checkup(name, "ok", f"works ({found.program}); memory and processes of a command's tree: {limits}"), *attempts]


def _documents() -> Checkup:
    """What makes documents of a text (`file: [report.md, report.pdf]`), and nothing else needs."""
    from metaflow_agents.documents import publishing

    if lacking := publishing.missing():
        return Checkup("documents", "note", lacking)
    try:
        there = publishing.installed()
    except OSError as error:
        return Checkup("documents", "note", f"pandoc can't be run: {error}; install `pypandoc_binary` again")
    return Checkup("documents", "ok", " and ".join(f"{name} {number}" for name, number in there.items()))


def _checkups() -> Iterator[Checkup]:
    """What installed packages say of themselves."""
    from metaflow_agents.errors import UsageError
    from metaflow_agents.plugins import installed

    for plugin in installed("checkups").values():
        try:
            yield Checkup(plugin.name, *plugin.load()())
        except UsageError as error:
            yield Checkup(plugin.name, "note", str(error))


def _plugins() -> Iterator[Checkup]:
    """What packages of others add, or what keeps it from being loaded."""
    from metaflow_agents.errors import UsageError
    from metaflow_agents.plugins import GROUPS, OURS, installed

    for plugin in (one for group in GROUPS for one in installed(group).values() if one.distribution != OURS):
        try:
            plugin.load()
        except UsageError as error:
            yield Checkup("plugin", "note", str(error))
        else:
            yield Checkup("plugin", "ok", f"`{plugin.name}` ({plugin.group}) of {plugin.maker}")
