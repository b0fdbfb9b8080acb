"""The files that a SOP names: role files, schema files, and templates with what they include."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from metaflow_agents.errors import Problem, SOPNotFound, did_you_mean
from metaflow_agents.prompts import includes
from metaflow_agents.schema.faults import SchemaWritten
from metaflow_agents.schema.shorthand import to_json_schema
from metaflow_agents.schema.sop import PATHS, is_whole_input, schema_among_keys
from metaflow_agents.schema.tools import is_file
from metaflow_agents.sop import library
from metaflow_agents.sop.description import DESCRIPTIONS, read_description
from metaflow_agents.sop.document import Document
from metaflow_agents.sop.names import misspelt_input_keys
from metaflow_agents.sop.places import Overlay, Places, Spot
from metaflow_agents.sop.places import Path as Place
from metaflow_agents.sop.reading import MAX_BYTES, read_yaml
from metaflow_agents.texts.names import plain_words

MAX_TEMPLATES = 200
MAX_PROBLEMS = 200
_ABOUT_KEYS = ("schema-key", "schema-keyword", "schema-combination", "schema-misplaced")
SCHEMA_ENDINGS = (".yaml", ".yml", ".json")


class ResourceFiles:
    """The files read so far: their texts by shown name, and their problems. Each is read once. `roots`: the folders that a
    SOP's files may lie in, links resolved.
    """

    def __init__(self, start: Path, roots: Sequence[Path]) -> None:
        self.start, self.roots = start.resolve(), roots
        self.sources: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._documents: dict[Path, Document | None] = {}

    @property
    def full(self) -> bool:
        """Whether so many problems were found that no more are looked for: finding the nearest names costs time."""
        return len(self.problems) > MAX_PROBLEMS

    def shown(self, file: Path) -> str:
        """The name of a file for people: from the start folder where it lies in it, `roles/x.yaml` for shipped files."""
        file = file.absolute()
        for base in (self.start, library.shipped_folder("sops").parent):
            if file.is_relative_to(base):
                return file.relative_to(base).as_posix()
        return file.as_posix()

    def not_found(self, what: str, name: str, folders: list[Path]) -> str:
        """That there is no such file, and each path where it was looked for."""
        return f"there is no {what} `{name}`: looked for {', '.join(f'`{self.shown(folder / name)}`' for folder in folders)}"

    def parsed(self, file: Path, data: bytes, parse: Callable[[bytes, str], Document] = read_yaml) -> Document:
        """What a file of these bytes says."""
        document = parse(data, self.shown(file))
        self.sources[document.file] = document.text
        self.problems += document.problems
        return document

    def yaml(self, file: Path) -> Document | None:
        """A YAML file's document, read once; None (with a problem) where it can't be read."""
        if file not in self._documents:
            data = self._bytes(file)
            self._documents[file] = None if data is None else self.parsed(file, data)
        return self._documents[file]

    def description(self, file: Path) -> Document | None:
        """The description of a service, read once; None (with a problem) where it can't be read."""
        if file not in self._documents:
            data = self._bytes(file, DESCRIPTIONS.size)
            self._documents[file] = None if data is None else self.parsed(file, data, read_description)
        return self._documents[file]

    def text(self, file: Path) -> str | None:
        """A template's text; None (with a problem) where it can't be read as UTF-8 text of bounded size."""
        data, shown = self._bytes(file), self.shown(file)
        if data is None:
            return None
        if len(data) > MAX_BYTES:
            self.problems.append(Problem("template-size", f"the template has more than {MAX_BYTES:,} bytes", "split it", shown))
            return None
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = data[:error.start].decode("utf-8-sig", "replace")
            self.problems.append(Problem("template-encoding", f"byte 0x{data[error.start]:02x} is not UTF-8",
                                         "save the file as UTF-8 text",
                                         shown, before.count("\n") + 1, len(before) - before.rfind("\n")))
            return None
        self.sources[shown] = text
        return text

    def _bytes(self, file: Path, most: int = MAX_BYTES) -> bytes | None:
        real = file.resolve()
        if not any(real.is_relative_to(root) for root in self.roots):
            self.problems.append(Problem("file-outside", "the file, or a folder above it, is a link that leads out of the SOP's "
                                         "project: what it says would reach the model",
                                         "put a copy of the file in its place, if you mean it",
                                         self.shown(file)))
            return None
        try:
            return library.read_bytes(file, most)
        except SOPNotFound as error:
            self.problems.append(Problem("file-unreadable", str(error), "check the file's permissions", self.shown(file)))
            return None


class Templates:
    """Templates by plain file name, with everything that they include. `shown`: name → the file for people."""

    def __init__(self, files: ResourceFiles, places: Places) -> None:
        self.files, self.places = files, places
        self.texts: dict[str, str] = {}
        self.shown: dict[str, str] = {}
        self._paths: dict[str, Path] = {}

    def named_in(self, text: str, place: Place, folders: list[Path]) -> None:
        """Reads what a text that stands in the SOP itself includes."""
        for name in includes(text):
            self._read(name, self.places.inside(place, *_line_column(text, name)), folders)

    def read(self, name: str, place: Place, folders: list[Path]) -> None:
        """Reads the template that the SOP names at a place, and what it includes, from the first folder that has it."""
        self._read(name, self.places.at(place), folders)

    def _read(self, name: str, spot: Spot, folders: list[Path]) -> None:
        waiting = [(name, spot)]
        while waiting and not self.files.full:
            name, spot = waiting.pop()
            file = self._find(name, spot, folders)
            if file is None or self._known(name, file, spot):
                continue
            if len(self._paths) >= MAX_TEMPLATES:
                self.files.problems.append(Problem("template-count", f"more than {MAX_TEMPLATES} templates", "use fewer", *spot))
                return
            self._paths[name] = file
            text = self.files.text(file)
            if text is not None:
                self.texts[name], self.shown[name] = text, self.files.shown(file)
                waiting += [(one, Spot(self.shown[name], *_line_column(text, one))) for one in reversed(includes(text))]

    def _find(self, name: str, spot: Spot, folders: list[Path]) -> Path | None:
        if refusal := library.name_refusal(name):
            self.files.problems.append(Problem("bad-file-name", f"`{name[:60]}` is no template's name: {refusal}",
                                               "write the name of a file beside this one", *spot))
            return None
        file = library.find_beside(name, folders)
        if file is None:
            there = library.file_names(folders, (".j2",))
            self.files.problems.append(Problem(
                "template-not-found", self.files.not_found("template", name, folders), _nearest(name, there), *spot))
        return file

    def _known(self, name: str, file: Path, spot: Spot) -> bool:
        known = self._paths.get(name)
        if known is not None and known.resolve() != file.resolve() and self.files.text(file) != self.texts.get(name):
            self.files.problems.append(Problem("template-clash", f"two templates are called `{name}`: {self.files.shown(known)} "
                                               f"and {self.files.shown(file)}", "rename one of them", *spot))
        return known is not None


def schemas(merged: dict[str, Any], entry: Document, files: ResourceFiles, overlays: list[Overlay],
            folders: list[Path]) -> dict[str, dict[str, Any]]:
    """The normalised schemas of a Program; those at fault accept anything, so that checking can go on."""
    found: dict[str, dict[str, Any]] = {}
    reader = _Schemas(entry, files, overlays, folders)
    for name, artifact in _items(merged.get("artifacts")):
        for key in ("schema", "each"):
            if isinstance(artifact, dict) and artifact.get(key) is not None and (key, artifact[key]) != ("each", {}):
                found[name] = reader.read(artifact[key], ("artifacts", name, key))
    for name, given in _items(merged.get("inputs")):
        whole = is_whole_input(given) or (isinstance(given, dict) and "type" in given and bool(misspelt_input_keys(given)))
        written = given["type"] if whole else schema_among_keys(given) or given
        if written not in PATHS:
            found[f"input:{name}"] = reader.read(written, ("inputs", name, "type") if whole else ("inputs", name))
    for name, step in _items(merged.get("steps")):
        review = step.get("review") if isinstance(step, dict) else None
        if isinstance(review, dict) and review.get("verdict") is not None:
            found[f"review:{name}"] = reader.read(review["verdict"], ("steps", name, "review", "verdict"))
    return found


def documents(merged: dict[str, Any], entry: Document, files: ResourceFiles, folders: list[Path]) -> dict[str, Any]:
    """The OpenAPI descriptions of a Program: name of the service → its document as plain data."""
    found: dict[str, Any] = {}
    for name, service in _items(merged.get("openapi")):
        if not isinstance(service, dict) or not isinstance(service.get("spec"), str) or files.full:
            continue
        spot = (entry.file, *entry.at("openapi", name, "spec"))
        written = service["spec"]
        refusal = library.name_refusal(written)
        file = None if refusal else library.find_beside(written, folders)
        if file is None:
            why, mend = ((f"`{written[:60]}` is no file's name: {refusal}", "write the name of a file beside the SOP; a "
                          "description that lies elsewhere is copied there, so that it can't change under the SOP") if refusal
                         else (files.not_found("file", written, folders),
                               did_you_mean(written, library.file_names(folders, (".json", ".yaml", ".yml")))))
            files.problems.append(Problem("openapi-not-found", why, mend, *spot))
            continue
        document = files.description(file)
        if document is not None and isinstance(document.data, dict):
            found[name] = document.data
        elif document is not None:
            files.problems.append(Problem("openapi-not-found", f"`{written}` holds no OpenAPI description",
                                          "it begins with `openapi: 3.…`", *spot))
    return found


def screens(merged: dict[str, Any], entry: Document, files: ResourceFiles,
            folders: list[Path]) -> dict[str, dict[str, list[str]]]:
    """The lists of names that a SOP's policy screens by: name of a file → heading → the names below it."""
    policy = merged.get("policy")
    written = policy.get("screen") if isinstance(policy, dict) else None
    found: dict[str, dict[str, list[str]]] = {}
    for index, name in enumerate([written] if isinstance(written, str) else written if isinstance(written, list) else ()):
        if not isinstance(name, str) or not is_file(name) or files.full:
            continue
        spot = (entry.file, *entry.at("policy", "screen", *([index] if isinstance(written, list) else [])))
        refusal = library.name_refusal(name)
        file = None if refusal else library.find_beside(name, folders)
        if file is None:
            why, mend = ((f"`{name[:60]}` is no file's name: {refusal}", "write the name of a file beside the SOP") if refusal
                         else (files.not_found("file", name, folders),
                               _nearest(name, library.file_names(folders, (".yaml", ".yml")))))
            files.problems.append(Problem("bad-screen", why, mend, *spot))
            continue
        document = files.yaml(file)
        if document is None:
            continue
        terms = document.data
        if isinstance(terms, dict) and terms and all(
                isinstance(one, list) and one and all(isinstance(term, str) and plain_words(term) for term in one)
                for one in terms.values()):
            found[name] = {str(heading): list(one) for heading, one in terms.items()}
        else:
            files.problems.append(Problem(
                "bad-screen", f"`{name}` is no list of names", "write headings, each with a list of names that hold a letter or "
                "a digit: `projects: [Bluebird, Operation Larch]`", document.file, 1, 1))
    return found


class _Schemas:
    def __init__(self, entry: Document, files: ResourceFiles, overlays: list[Overlay], folders: list[Path]) -> None:
        self.entry, self.files, self.overlays, self.folders = entry, files, overlays, folders

    def read(self, written: Any, place: Place) -> dict[str, Any]:
        document, root = self.entry, place
        if self.files.full:
            return {}
        if isinstance(written, str) and written.lower().endswith(SCHEMA_ENDINGS):
            found = self._file(written, place)
            if found is None or found.data is None:
                return {}
            document, root, written = found, (), found.data
            self.overlays.append(Overlay(place, document))
        try:
            return dict(to_json_schema(written))
        except SchemaWritten as error:
            for fault in error.faults:
                place_of = document.key_at if fault.code in _ABOUT_KEYS else document.at
                self.files.problems.append(Problem(fault.code, fault.message, fault.mend, document.file,
                                                   *place_of(*root, *fault.path)))
            return {}

    def _file(self, name: str, place: Place) -> Document | None:
        spot = (self.entry.file, *self.entry.at(*place))
        if refusal := library.name_refusal(name):
            self.files.problems.append(Problem("bad-file-name", f"`{name[:60]}` is no schema file's name: {refusal}",
                                               "write the name of a file beside the SOP", *spot))
            return None
        file = library.find_beside(name, self.folders)
        if file is None:
            there = library.file_names(self.folders, tuple(f".schema{ending}" for ending in SCHEMA_ENDINGS))
            self.files.problems.append(Problem(
                "schema-not-found", self.files.not_found("schema file", name, self.folders), _nearest(name, there), *spot))
            return None
        return self.files.yaml(file)


def _nearest(name: str, there: list[str]) -> str:
    return did_you_mean(name, there) if there else "write it, or mend the name"


def _items(written: Any) -> list[tuple[str, Any]]:
    return list(written.items()) if isinstance(written, dict) else []


def _line_column(text: str, part: str) -> tuple[int, int]:
    """Where a name stands in a template."""
    index = max(text.find(part), 0)
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
