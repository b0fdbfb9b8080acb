"""What is wrong with a written schema: all of it, each with its path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from metaflow_agents.errors import SOPError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """One thing wrong with a written schema. `path` leads to it inside the written value."""

    path: Path
    message: str
    mend: str
    code: str


class SchemaWritten(SOPError):
    """A schema is not well written; `faults` holds all that is wrong with it."""

    def __init__(self, faults: Iterable[SchemaFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(fault.message for fault in self.faults))


class Faults:
    """Collects what is wrong while a schema is read."""

    def __init__(self) -> None:
        self.found: list[SchemaFault] = []

    def add(self, code: str, path: Path, message: str, mend: str) -> dict[str, Any]:
        """Notes a fault. Gives the schema of any value, so that reading can go on past it."""
        self.found.append(SchemaFault(path, message, mend, f"schema-{code}"))
        return {}
