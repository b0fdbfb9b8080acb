"""One version of an artifact, or one file of it, as a page shows it: by what it is, never by what it says that it is.

A picture is shown where its bytes are those of a PNG, JPEG, GIF or WebP; what is text is Markdown, HTML, a table or code by its
name; everything else is told in words. HTML and SVG are code here: a page that renders them does so in a frame without rights.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from metaflow_agents.errors import ExpressionError, UsageError, did_you_mean
from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.schema import pictures
from metaflow_agents.schema.binary import BinaryFile, jsonable, text_in
from metaflow_agents.schema.media import HEAD, media_type
from metaflow_agents.schema.payload import Binary, Collection, Data, Files, Held
from metaflow_agents.schema.program import Program
from metaflow_agents.views.ui.code import code_lines, language_of
from metaflow_agents.views.ui.markdown_tree import markdown_tree
from metaflow_agents.views.ui.tables import csv_table, table_of
from metaflow_agents.views.ui.texts import bounded, clean, cut, line
from metaflow_agents.views.ui.versions import InsideVersions, VersionsMade, parted, program_at
from metaflow_agents.views.values import text_of

_PICTURE = 3 << 20                  # bytes of a picture that is sent
_ENTRIES = 2_000                    # files or items that are listed
_SIZED = 200                        # of them whose sizes are told
_CODE = 60_000                      # characters of code that are sent unasked
_MARKDOWN, _HTML, _CSV = {".md", ".markdown"}, {".html", ".htm"}, {".csv": ",", ".tsv": "\t"}

Shown = dict[str, Any]


class Showing:
    """What the artifacts of one run hold. `run`: its name, for templates that name it."""

    def __init__(self, made: VersionsMade, program: Program, blob: Any, run: str) -> None:
        self._made, self._program, self._blob, self._run = made, program, blob, run

    def of(self, name: str, number: int, path: str = "") -> Shown:
        """One version, of files and collections one `path` or key. Raises UsageError for what is not there, JournalError."""
        payload = self._payload(name, number)
        place, own = parted(name)
        values = Values(self._blob, InsideVersions(self._made, place))
        held = values.payload(payload)
        found = self._part(held, values, path, name) if path else self._whole(own, place, payload, held, values)
        return {"name": name, "number": number, **({"path": path} if path else {}), **found}

    def raw(self, name: str, number: int, path: str = "") -> tuple[str, bytes]:
        """The bytes of a version that is one file, or of one file of it, with its name. Raises UsageError."""
        payload = self._payload(name, number)
        place, own = parted(name)
        values = Values(self._blob, InsideVersions(self._made, place))
        held = values.payload(payload)
        if isinstance(held, Files):
            return path, self._blob(_named(held.files, path, name))
        if isinstance(held, Binary):
            return held.name or own, self._blob(held.sha256)
        program = program_at(self._program, place)
        leaves = {} if program is None else Tree(program, values, InsideVersions(self._made, place), self._run).of(own, payload)
        if leaves:
            file = path or next(iter(leaves))
            return file, leaves[file].load() if file in leaves else self._blob(_named({}, path, name))
        return own, text_of(values.plain(payload)).encode()

    def payload(self, name: str, number: int) -> tuple[Values, str]:
        """The digest of a version, and who reads it. Raises UsageError."""
        return Values(self._blob, InsideVersions(self._made, parted(name)[0])), self._payload(name, number)

    def _payload(self, name: str, number: int) -> str:
        if name not in self._made.of:
            known = list(self._made.of)[:500]
            raise UsageError(f"run `{self._run}` has no artifact `{line(name)}`: {did_you_mean(line(name), known)}")
        payload = self._made.payload(name, number)
        if payload is None:
            raise UsageError(f"`{line(name)}` has no version {number}: there is {line(name)}@1 to @{self._made.version(name)}")
        return payload

    def _whole(self, own: str, place: str, payload: str, held: Held, values: Values) -> Shown:
        match held:
            case Files():
                return {"kind": "files", "entries": self._entries(held.files), "total": len(held.files),
                        "missing": [line(path) for path in held.missing[:_ENTRIES]], "assumed": _lines(held.assumed)}
            case Collection():
                table = table_of({key: values.plain(item) for key, item in held.items[:_ENTRIES]})
                return {"kind": "collection", "entries": _keys(held), "total": len(held.items),
                        "missing": [line(key) for key in held.missing[:_ENTRIES]], **({"table": table} if table else {})}
            case Binary():
                return {**shown_file(held.name or own, self._blob(held.sha256), held.sha256), "assumed": _lines(held.assumed)}
            case Data():
                return {**self._data(own, place, payload, held, values), "assumed": _lines(held.assumed),
                        **({"entries": self._entries(held.documents)} if held.documents else {})}
        return shown_value(jsonable(values.plain(payload)), payload)

    def _data(self, own: str, place: str, payload: str, held: Data, values: Values) -> Shown:
        program = program_at(self._program, place)
        spec = None if program is None else program.sop.artifacts.get(own)
        file = (spec.file if spec is not None else None) or (f"{own}.md" if isinstance(held.value, str) else f"{own}.json")
        if program is not None and spec is not None and spec.render is not None:
            versions = InsideVersions(self._made, place)
            try:
                rendered = Tree(program, values, versions, self._run).as_rendered(own, held.value)
            except ExpressionError as error:
                return {**shown_value(held.value, payload), "told": f"its template fails: {line(str(error))}"}
            data, whole = bounded(held.value)
            return {**shown_text(file, rendered), "data": data, **({"data_cut": True} if whole else {})}
        if isinstance(held.value, str):
            return shown_text(file, held.value, payload, "value")
        return shown_value(held.value, payload)

    def _part(self, held: Held, values: Values, path: str, name: str) -> Shown:
        """One file of several, one item of a collection, one document of a text."""
        if isinstance(held, Files):
            digest = _named(held.files, path, name)
            return shown_file(path, self._blob(digest), digest)
        if isinstance(held, Collection):
            digest = _named(dict(held.items), path, name)
            value = values.plain(digest)
            if isinstance(value, BinaryFile):
                return shown_file(value.name, value.load(), value.sha256)
            if isinstance(value, str):
                return shown_text(f"{path}.md", value, digest, "value")
            return shown_value(jsonable(value), digest)
        if isinstance(held, Data):
            digest = _named(held.documents, path, name)
            return shown_file(path, self._blob(digest), digest)
        raise UsageError(f"`{line(name)}` is one file: leave out `{line(path)}`")

    def _entries(self, named: Mapping[str, str]) -> list[dict[str, Any]]:
        """Paths as they are asked for, how they are told, and how many bytes those are that are listed first."""
        return [{"path": path, "told": line(path), "bytes": len(self._blob(digest)) if number < _SIZED else None}
                for number, (path, digest) in enumerate(list(named.items())[:_ENTRIES])]


def _keys(held: Collection) -> list[dict[str, Any]]:
    """The keys of items, as paths are listed; how large an item is does not show in its payload."""
    return [{"key": key, "told": line(key), "bytes": None} for key, _ in held.items[:_ENTRIES]]


def _named(parts: Mapping[str, str], path: str, name: str) -> str:
    if path not in parts:
        raise UsageError(f"`{line(name)}` has no `{line(path)}`: {did_you_mean(line(path), list(parts)[:500])}")
    return parts[path]


def _lines(texts: tuple[str, ...]) -> list[str]:
    return [line(one, 500) for one in texts[:50]]


def shown_file(path: str, data: bytes, digest: str) -> Shown:
    """A file by its bytes and, where these are text, by its name."""
    text = text_in(data)
    if text is not None:
        return shown_text(path, text, digest)
    kind = media_type(data[:HEAD], path)
    sides = pictures.size(data, kind)
    if sides is not None and len(data) <= _PICTURE:
        return {"kind": "image", "media": kind, "width": sides[0], "height": sides[1], "bytes": len(data),
                "data": base64.b64encode(data).decode()}
    return {"kind": "binary", "media": kind, "bytes": len(data), "digest": digest}


def shown_text(path: str, text: str, digest: str = "", way: str = "") -> Shown:
    """A text by the name of its file. `digest` and `way`: where the whole of it is."""
    ending, cleaned = PurePosixPath(path).suffix.lower(), clean(text)
    size = {"bytes": len(text.encode())}
    if ending in _MARKDOWN and (tree := markdown_tree(text)) is not None:
        return {"kind": "markdown", "tree": tree, **cut(cleaned, digest, way), **size}
    if ending in _CSV and (table := csv_table(text, _CSV[ending])) is not None:
        return {"kind": "table", **table, **cut(cleaned, digest, way), **size}
    language = language_of(path)
    if not language or ending in _MARKDOWN:
        return {"kind": "text", **cut(cleaned, digest, way), **size}
    told = cut(cleaned, digest, way, _CODE)
    kind = "html" if ending in _HTML else "svg" if ending == ".svg" else "code"
    return {"kind": kind, "language": language, "lines": code_lines(told.pop("text"), language), **told, **size}


def shown_value(value: Any, digest: str) -> Shown:
    """JSON data: a table where it is one, and in any case the data, as far as a page can show it, and as text."""
    data, is_cut = bounded(value)
    told = cut(clean(text_of(value)), digest, "value", _CODE)
    lines = code_lines(told.pop("text"), "json")
    table = table_of(value)
    return {"kind": "json" if table is None else "table", **(table or {}), "data": data, "lines": lines, "language": "json",
            **told, **({"data_cut": True} if is_cut else {})}
