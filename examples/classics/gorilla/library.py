"""An index of API documents that follows its folder: what changed there since the last question is read again.

A document is a JSON file: `call`, the API as Python calls it, with what is fixed of its arguments (`pipeline(model='a/b')`);
`description`; `parameters`, name → what it is (a JSON Schema); `required`, names of those that must be given.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

from metaflow_agents.tools.retrieval import ToolIndex

_LARGEST = 1 << 20                   # bytes of a document
_SHELVES: dict[Path, Library] = {}


class Library:
    """The documents of a folder, and a search over them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps: dict[str, tuple[int, int, int]] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        self._index = ToolIndex([])

    def follow(self) -> None:
        """Reads what is new or changed, and forgets what is gone. Raises OSError, ValueError for what is no document."""
        now = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(".json"):
                    stat = entry.stat()
                    now[entry.name] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        changed = [name for name, stamp in now.items() if self._stamps.get(name) != stamp]
        gone = self._stamps.keys() - now.keys()
        if changed or gone:
            self.documents = {name: one for name, one in self.documents.items() if name in now}
            self.documents |= {name: _read(self._folder / name) for name in changed}
            self.documents = dict(sorted(self.documents.items()))
            self._index = ToolIndex([_told(name, one) for name, one in self.documents.items()])
        self._stamps = now

    def nearest(self, question: str, top: int) -> list[dict[str, Any]]:
        """The documents nearest to a question, best first, each with its file's name."""
        return [{"file": name, **self.documents[name]} for name in self._index.search(question, top)]


def library(folder: str) -> Library:
    """That of a folder, as it is now; a relative path is one beside this file."""
    path = (Path(__file__).parent / folder).resolve()
    found = _SHELVES.setdefault(path, Library(path))
    found.follow()
    return found


def nearest(folder: str, question: str, top: int) -> list[dict[str, Any]]:
    """The documents nearest to a question; none where `top` is 0: who answers then has only what they remember."""
    return library(folder).nearest(question, top) if top else []


def _read(file: Path) -> dict[str, Any]:
    if file.stat().st_size > _LARGEST:
        raise ValueError(f"{file.name} is larger than {_LARGEST:,} bytes")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:                             # no UTF-8, or no JSON
        raise ValueError(f"{file.name} is no JSON document: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("call"), str):
        raise ValueError(f"{file.name} is no document: it has no `call`")
    if not isinstance(ast.parse(found["call"], mode="eval").body, ast.Call):
        raise ValueError(f"{file.name}: `call` is {found['call']!r}, and no call: write it as `name()` or `name(fixed='value')`")
    return {"description": "", "parameters": {}, "required": [], **found}


def _told(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """As the search takes it. The file's name says nothing."""
    return {"name": name, "description": f"{document['call']} {document['call']} {document['description']}",
            "parameters": {"properties": document["parameters"]}}
