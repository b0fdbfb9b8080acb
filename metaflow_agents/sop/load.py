"""A SOP and all files that it names → one `Program`, with the place of every part, all problems of all files at once.

How files are merged. A role is what the SOP writes under `roles`, over its file `roles/NAME.yaml`, over `defaults.roles`;
a step is what the SOP writes, over `defaults.steps`. A key's own value replaces the other one wholly, except that the
mappings of a role and its file (`memory`, `budget`) merge key by key. Defaults that mean something to one kind of doer
only (`task`, `strategy` and the like) reach steps of that kind, and a default doer those that name none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from metaflow_agents.errors import Problem, SOPInvalid, SOPNotFound
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP, Defaults
from metaflow_agents.schema.step import DOERS
from metaflow_agents.sop import library, names
from metaflow_agents.sop import resource_files as attached
from metaflow_agents.sop.document import Document
from metaflow_agents.sop.places import Overlay, Places
from metaflow_agents.sop.plans import with_graphs
from metaflow_agents.sop.resource_files import MAX_PROBLEMS
from metaflow_agents.sop.shape_errors import keys_of, problems_of, unknown_key

_ENOUGH = MAX_PROBLEMS + 1                # naming the nearest choices costs time: no more of it than is shown
ROLE_ONLY = frozenset({"task", "self", "strategy", "model", "budget", "tools", "review", "talks_to", "stuck"})
DOER_ONLY = {"parse": ("run", "tool"), "args": ("call",), "with": ("use",), "effect": ("call", "use"),
              "inputs": ("sop", "tool"), "output": ("sop",)}


@dataclass(frozen=True, slots=True)
class LoadedSOP:
    """A SOP made whole. `sources` are the texts of all files that were read, by the name under which they are shown."""

    program: Program
    sources: dict[str, str]
    entry: str
    folders: library.Folders
    places: Places
    inner: dict[str, LoadedSOP] = field(default_factory=dict)
    """What a step writes as `sop:` → that SOP."""

    @property
    def folder(self) -> Path:
        """The folder in which its file lies."""
        return self.folders.sop


@dataclass(frozen=True, slots=True)
class Reading:
    """All problems of a SOP's files, and the SOP where its structure holds: it may be looked at, but not run with problems."""

    problems: tuple[Problem, ...]
    loaded: LoadedSOP | None


def load_sop(name_or_path: str | Path, *, start: Path | None = None) -> LoadedSOP:
    """The SOP of that file or name. Raises SOPNotFound, or SOPInvalid with the problems of all its files.

    This is about the form of what is written; `check` says whether it also makes sense.
    """
    reading = read_sop(name_or_path, start=start)
    if reading.problems or reading.loaded is None:
        raise SOPInvalid(reading.problems)
    return reading.loaded


def read_sop(name_or_path: str | Path, *, start: Path | None = None, text: bytes | None = None) -> Reading:
    """Like `load_sop`, but problems inside files are returned. Raises SOPNotFound where there is no such SOP.

    `start` is the folder from which names are looked for (default: the current one). `text` takes the place of the SOP's own
    file, as an editor holds it before it is saved; all other files are read where they lie.
    """
    start = start or Path.cwd()
    file = library.sop_file(name_or_path, start)
    return _Loading(file if text is None else file._replace(data=text), start).reading()


class _Loading:
    """One loading: what was read so far, and what was wrong."""

    def __init__(self, file: library.SOPFile, start: Path, above: tuple[Path, ...] = ()) -> None:
        self.start, self.folders = start, file.folders
        self.above = (*above, file.path)
        self.files = attached.ResourceFiles(start, self.folders.roots)
        self.problems = self.files.problems
        self.document = self.files.parsed(file.path, file.data)
        self.entry = self.document.file
        self.overlays: list[Overlay] = []
        self.role_files: dict[str, tuple[Path, Document]] = {}

    def reading(self) -> Reading:
        if not isinstance(self.document.data, dict):
            return self._ended(None)
        merged = self._merged(self.document.data)
        schemas = attached.schemas(merged, self.document, self.files, self.overlays, self.folders.files)
        documents = attached.documents(merged, self.document, self.files, self.folders.files)
        screens = attached.screens(merged, self.document, self.files, self.folders.files)
        places = Places(self.document, tuple(self.overlays))
        templates = attached.Templates(self.files, places)
        self._templates(merged, templates)
        places = Places(self.document, tuple(self.overlays), templates.shown)
        self.problems += islice(names.problems_of(self.document.data, merged, places), _ENOUGH)
        sop = self._validated(merged, places)
        if sop is None:
            return self._ended(None)
        inner = self._inner(sop, places)
        program = Program(sop=sop, schemas=schemas, templates=templates.texts, **({"documents": documents} if documents else {}),
                          **({"screens": screens} if screens else {}),
                          **({"sops": {name: one.program for name, one in inner.items()}} if inner else {}))
        sources = {name: text for one in inner.values() for name, text in one.sources.items()}
        return self._ended(LoadedSOP(program, {**self.files.sources, **sources}, self.entry, self.folders, places, inner))

    def _inner(self, sop: SOP, places: Places) -> dict[str, LoadedSOP]:
        """The SOPs that steps are, made whole likewise, with the problems of their files. None is a step of itself."""
        found: dict[str, LoadedSOP] = {}
        for name, step in sop.steps.items():
            if step.sop is None or step.sop in found:
                continue
            spot = places.at(("steps", name, "sop"))
            try:
                file = library.sop_file(step.sop, self.folders.sop)
            except SOPNotFound as error:
                self.problems.append(Problem("sop-not-found", str(error), "write the name of a SOP beside this one", *spot))
                continue
            if file.path in self.above:
                circle = [*self.above[self.above.index(file.path):], file.path]
                self.problems.append(Problem(
                    "sop-recursion", f"a SOP is a step of itself: {' → '.join(one.stem for one in circle)}",
                    "let a `foreach` or a step with `rounds` do what repeats", *spot))
                continue
            reading = _Loading(file, self.start, self.above).reading()
            self.problems += reading.problems
            if reading.loaded is not None:
                found[step.sop] = reading.loaded
        return found

    def _ended(self, loaded: LoadedSOP | None) -> Reading:
        found = sorted(dict.fromkeys(self.problems), key=lambda one: (one.file, one.line, one.column, one.code, one.message))
        if len(found) > MAX_PROBLEMS:
            more = Problem("more-problems", f"only {MAX_PROBLEMS} problems are shown", "mend these first", self.entry)
            found = [*found[:MAX_PROBLEMS], more]
        return Reading(tuple(found), loaded)

    def _merged(self, data: dict[str, Any]) -> dict[str, Any]:
        """The SOP with role files and defaults in it, and without `defaults`."""
        defaults = data.get("defaults")
        shared = defaults if isinstance(defaults, dict) else {}
        merged = {key: value for key, value in data.items() if key != "defaults"}
        if isinstance(data.get("roles"), dict):
            for name, value in data["roles"].items():
                if isinstance(value, dict) and len(self.problems) < _ENOUGH:
                    self._find_role(name, value)
            merged["roles"] = {name: self._role(name, value, shared.get("roles")) for name, value in data["roles"].items()}
        if isinstance(data.get("steps"), dict):
            merged["steps"] = {name: _step(value, shared.get("steps")) for name, value in data["steps"].items()}
            self.overlays += [Overlay(("steps", name), self.document, ("defaults", "steps")) for name in data["steps"]]
        if isinstance(data.get("roles"), dict):
            self.overlays += [Overlay(("roles", name), self.document, ("defaults", "roles")) for name in data["roles"]]
        return merged

    def _find_role(self, name: str, value: dict[str, Any]) -> None:
        if not names.is_name(name):
            return
        file = library.role_in(name, self.folders.own_roles if "profile" in value else self.folders.roles)
        if file is not None:
            document = self.files.yaml(file)
            if document is not None and isinstance(document.data, dict):
                self.role_files[name] = file, document
                self.overlays.append(Overlay(("roles", name), document))
                self._role_name(name, document)
        elif not {"profile", "goal", "prompt"} & set(value):
            self.problems.append(names.role_not_found(
                name, self.folders.role_names, self.document.file, self.document.key_at("roles", name)))

    def _role_name(self, name: str, document: Document) -> None:
        written = document.data.get("role", name)
        if written != name:
            self.problems.append(Problem("role-name", f"this file is the role `{name}`, and says `role: {written}`",
                                         f"write `role: {name}`, or rename the file", document.file, *document.at("role")))

    def _role(self, name: str, value: Any, defaults: Any) -> Any:
        if not isinstance(value, dict):
            return value
        whole = dict(defaults) if isinstance(defaults, dict) else {}
        beneath = self.role_files[name][1].data if name in self.role_files else {}
        whole.update(beneath)
        for key, own in value.items():
            below = beneath.get(key)
            whole[key] = {**below, **own} if isinstance(below, dict) and isinstance(own, dict) else own
        if value.get("role", name) != name:
            self.problems.append(Problem("role-name", f"this is the role `{name}`, and says `role: {value['role']}`",
                                         "remove `role`", self.document.file, *self.document.at("roles", name, "role")))
        return {**whole, "role": name}

    def _templates(self, merged: dict[str, Any], templates: attached.Templates) -> None:
        roles, artifacts = merged.get("roles"), merged.get("artifacts")
        for name, role in roles.items() if isinstance(roles, dict) else ():
            if isinstance(role, dict) and isinstance(role.get("prompt"), str):
                inline = not (name in self.role_files and "prompt" in self.role_files[name][1].data
                              and not self.document.has("roles", name, "prompt"))
                first = self.folders.sop if inline else self.role_files[name][0].parent
                folders = [first, *self.folders.own_roles]
                templates.read(role["prompt"], ("roles", name, "prompt"), folders)
        for name, artifact in artifacts.items() if isinstance(artifacts, dict) else ():
            if isinstance(artifact, dict) and isinstance(artifact.get("render"), str):
                templates.read(artifact["render"], ("artifacts", name, "render"), self.folders.files)
        steps = merged.get("steps")
        for name, step in steps.items() if isinstance(steps, dict) else ():
            for strategy, prompt, file in _strategy_prompts(step):
                templates.read(file, ("steps", name, "strategy", strategy, "prompts", prompt), self.folders.files)
            if isinstance(step, dict) and isinstance(step.get("task"), str):
                templates.named_in(step["task"], ("steps", name, "task"), self.folders.files)

    def _validated(self, merged: dict[str, Any], places: Places) -> SOP | None:
        """The SOP as a value; None where its structure does not hold, with a problem for each reason."""
        defaults = self.document.data.get("defaults")
        sound = True
        if "defaults" in self.document.data:
            try:
                Defaults.model_validate(defaults)
                self._default_keys(defaults, places)
            except ValidationError as error:
                sound = False
                self.problems += problems_of(error.errors(include_url=False)[:_ENOUGH], defaults, places, ("defaults",))
        try:
            sop = SOP.model_validate(merged)
        except ValidationError as error:
            told = {(one.file, one.line, one.column) for one in self.problems if one.code in ("not-built", "foreign-key")}
            self.problems += [one for one in problems_of(error.errors(include_url=False)[:_ENOUGH], merged, places)
                              if (one.file, one.line, one.column) not in told]
            return None
        return with_graphs(sop) if sound else None

    def _default_keys(self, defaults: dict[str, Any], places: Places) -> None:
        for part, kind in (("steps", "step"), ("roles", "role")):
            for key in islice(defaults.get(part, {}), _ENOUGH):
                if key not in keys_of(kind):
                    self.problems.append(unknown_key(kind, ("defaults", part, key), places))


def _strategy_prompts(step: Any) -> Iterator[tuple[str, str, str]]:
    """Strategy, prompt and file of the templates that take the place of a strategy's own prompts."""
    strategy = step.get("strategy") if isinstance(step, dict) else None
    for name, parameters in strategy.items() if isinstance(strategy, dict) else ():
        prompts = parameters.get("prompts") if isinstance(parameters, dict) else None
        for prompt, file in prompts.items() if isinstance(prompts, dict) else ():
            if isinstance(file, str):
                yield name, prompt, file


def _step(value: Any, defaults: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(defaults, dict):
        return value
    own = next((doer for doer in DOERS if doer in value), None)
    doer = own or next((one for one in DOERS if one in defaults), None)
    shared = {key: one for key, one in defaults.items()
              if not (own and key in DOERS)
              and not (key in ROLE_ONLY and doer != "role" and not (key == "task" and doer == "human"))
              and not (key in DOER_ONLY and doer not in DOER_ONLY[key])}
    return {**shared, **value}
