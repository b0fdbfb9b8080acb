"""What differs between two versions of an artifact, in hunks of lines; of files and collections part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from metaflow_agents.journal.values import Values
from metaflow_agents.schema.binary import BinaryFile
from metaflow_agents.schema.difference import unified
from metaflow_agents.schema.payload import Collection, Files
from metaflow_agents.views.ui.texts import clean, line
from metaflow_agents.views.values import text_of

_LINES, _LONGEST_LINE = 4_000, 2_000     # lines of one answer, characters of a line
_SIZE = 2_000_000                        # characters of a text that is compared
_PARTS = 300                             # files or items of one answer

Hunk = dict[str, Any]
"""`{"old": first line, "new": first line, "lines": [[sign, text]]}`"""
Part = tuple[str, Callable[[], Any]]
"""What tells whether two are the same, and what gives the value."""


def difference(before: tuple[Values, str | None], after: tuple[Values, str | None], path: str = "") -> dict[str, Any]:
    """How two payloads (with who reads them) differ: `{same, hunks}`, or of files and collections `{same, files}`. `path`: of one
    file or item alone.
    """
    one, two = (_parts(values, payload) for values, payload in (before, after))
    if path or not (_several(one) or _several(two)):
        name = path
        found = _hunks(one.get(name), two.get(name))
        return {"same": not found["hunks"] and "told" not in found, **found}
    files = []
    for name in dict.fromkeys((*one, *two)):
        a, b = one.get(name), two.get(name)
        if a is None or b is None or a[0] != b[0]:
            files.append((name, a, b))
    left = _Left()
    return {"same": not files, "total": len(files),
            "files": [{"path": line(name), "sign": "+" if a is None else "-" if b is None else " ", **_hunks(a, b, left)}
                      for name, a, b in files[:_PARTS]]}


class _Left:
    """How many lines may still be told."""

    def __init__(self) -> None:
        self.lines = _LINES


def _several(parts: Mapping[str, Part]) -> bool:
    return bool(parts) and "" not in parts


def _parts(values: Values, payload: str | None) -> dict[str, Part]:
    """Path or key → part; one part without a name for a value; none for what is not there."""
    if payload is None:
        return {}
    held = values.payload(payload)
    if isinstance(held, Files):
        return {path: (digest, lambda path=path, digest=digest: values.content(digest, path))            # type: ignore[misc]
                for path, digest in held.files.items()}
    if isinstance(held, Collection):
        return {key: (digest, lambda digest=digest: values.plain(digest)) for key, digest in held.items}    # type: ignore[misc]
    return {"": (payload, lambda: values.plain(payload))}


def _hunks(before: Part | None, after: Part | None, left: _Left | None = None) -> dict[str, Any]:
    left = left or _Left()
    values = ["" if part is None else part[1]() for part in (before, after)]
    if any(isinstance(value, BinaryFile) for value in values):
        told = " → ".join("nothing" if part is None else text_of(value).splitlines()[0]
                          for part, value in zip((before, after), values, strict=True))
        return {"hunks": [], "told": told} if before is None or after is None or before[0] != after[0] else {"hunks": []}
    texts = [clean(text_of(value)) for value in values]
    if any(len(text) > _SIZE for text in texts):
        return {"hunks": [], "told": f"too long to compare: {' and '.join(f'{len(text):,}' for text in texts)} characters"}
    return _read(unified(texts[0].splitlines(), texts[1].splitlines(), "a", "b"), left)


def _read(lines: Any, left: _Left) -> dict[str, Any]:
    """A unified difference as hunks."""
    hunks: list[Hunk] = []
    for number, written in enumerate(lines):
        if number < 2:
            continue                                        # the names
        if written.startswith("@@ "):
            old, new = written.split()[1:3]
            hunks.append({"old": _start(old), "new": _start(new), "lines": []})
            continue
        left.lines -= 1
        if left.lines < 0:
            return {"hunks": hunks, "told": "more differs than is shown"}
        text = written[1:]
        hunks[-1]["lines"].append([written[0], text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "…"])
    return {"hunks": hunks}


def _start(span: str) -> int:
    return int(span[1:].partition(",")[0])
