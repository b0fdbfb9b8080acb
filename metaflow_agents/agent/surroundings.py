"""What acting takes: the run around it, and the files of its activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metaflow_agents.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.people.desk import Desk
from metaflow_agents.tools.port import Result
from metaflow_agents.tools.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What acting takes; the same for all activations of a run. `staged`: acting tools only tell what they would do."""

    bus: Bus
    state: RunState
    values: Values
    desk: Desk
    secrets: Secrets
    staged: bool = False


@dataclass(slots=True)
class Tree:
    """The files of an activation: those that it sees, and over them what it wrote."""

    seen: Mapping[str, bytes]
    patterns: tuple[str, ...] = ()
    written: dict[str, bytes] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    @property
    def files(self) -> dict[str, bytes]:
        """All of them: path → bytes."""
        return {**{path: data for path, data in self.seen.items() if path not in self.deleted}, **self.written}

    def take(self, result: Result) -> None:
        """What a tool did becomes part of it."""
        for path in result.deleted:
            self.written.pop(path, None)
            if path in self.seen:
                self.deleted.add(path)
        self.deleted -= set(result.written)
        self.written.update(result.written)
