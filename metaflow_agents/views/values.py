"""An artifact's value as a person reads it, and as plain data."""

from __future__ import annotations

import json
from typing import Any

from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.binary import BinaryFile, jsonable
from metaflow_agents.schema.payload import Collection, Files


def as_text(artifact: str, payload: str, values: Values, tree: Tree, *, rendered: bool) -> str:
    """One version as text: files with their paths, what has a template rendered by it, all else as text or JSON."""
    held = values.payload(payload)
    if isinstance(held, Files):
        shown = {path: text_of(values.content(name, path)) for path, name in held.files.items()}
        return "\n".join(f"=== {path} ===\n{text}" for path, text in shown.items()) or "no file"
    if rendered:
        return tree.as_rendered(artifact, values.view(payload))
    if isinstance(held, Collection):
        return "\n".join(f"=== {key} ===\n{text_of(values.plain(item))}" for key, item in held.items) or "no item"
    return text_of(values.plain(payload))


def text_of(value: Any) -> str:
    """Text as it is, of a file that is no text what is known of it, everything else as JSON."""
    if isinstance(value, BinaryFile):
        return f"{value}\nsha256 {value.sha256}"
    return value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False, indent=2)
