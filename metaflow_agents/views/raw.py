"""One version of an artifact as bytes: what its file in the run's directory holds, or would hold."""

from __future__ import annotations

import json
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.binary import BinaryFile, jsonable
from metaflow_agents.schema.payload import Files


def raw(artifact: str, payload: str, values: Values, tree: Tree, folder: str) -> bytes:
    """The bytes of its one file; without a file, text as it is, and all else as JSON. Raises UsageError for several files."""
    held = values.payload(payload)
    leaves = tree.of(artifact, payload)
    if isinstance(held, Files) and len(leaves) != 1:
        raise UsageError(f"`{artifact}` is {len(leaves)} files, and `--raw` writes one: the latest lie in {folder}/")
    if leaves:
        return next(iter(leaves.values())).load()
    value: Any = values.plain(payload)
    if isinstance(value, BinaryFile):
        return value.load()
    return (value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False, indent=2) + "\n").encode()
