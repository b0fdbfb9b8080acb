"""What acting takes: the run around it, and the files of its activation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.questions.broker import QuestionBroker
from metaflow_agents.steps.repeats import Repeats
from metaflow_agents.steps.screening import Screening
from metaflow_agents.tools.port import ToolResult
from metaflow_agents.tools.secrets import Secrets


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What acting takes; the same for all activations of a run. `staged`: acting tools only tell what they would do."""

    bus: Bus
    state: RunState
    values: Values
    desk: QuestionBroker
    secrets: Secrets
    repeats: Repeats
    screening: Screening
    staged: bool = False


@dataclass(slots=True)
class ActivationTree:
    """The files of an activation: those that it sees, and over them what it wrote."""

    seen: Mapping[str, bytes]
    patterns: tuple[str, ...] = ()
    written: dict[str, bytes] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    _came: dict[str, bytes | None] = field(default_factory=dict, init=False)
    """What it began with besides the files that it sees, and what it was joined with: all that it did not do itself."""
    _first: Mapping[str, bytes] | None = field(default=None, init=False)
    """The files that it saw first, once it was shown changes to them."""

    def __post_init__(self) -> None:
        self._came = {**self.written, **dict.fromkeys(self.deleted)}

    @property
    def files(self) -> dict[str, bytes]:
        """All of them: path → bytes."""
        return {**{path: data for path, data in self.seen.items() if path not in self.deleted}, **self.written}

    def show(self, written: Mapping[str, bytes], deleted: Collection[str]) -> None:
        """Has it see the files with these changes to those that it saw first, in the place of earlier ones."""
        first = self.seen if self._first is None else self._first
        self._first = first
        self.seen = {**{path: data for path, data in first.items() if path not in deleted}, **written}

    def take(self, result: ToolResult) -> None:
        """What a tool did becomes part of it."""
        for path in result.deleted:
            self.written.pop(path, None)
            if path in self.seen:
                self.deleted.add(path)
        self.deleted -= set(result.written)
        self.written.update(result.written)

    def join(self, other: ActivationTree) -> tuple[str, ...]:
        """Adds what another one, which saw the same files, did itself. Gives the paths where this one meanwhile came to have
        something else: the other's stands there.
        """
        clashes = []
        for path in sorted({*other.written, *other.deleted, *other._came}):
            before, now, here = other._came.get(path, other.seen.get(path)), other._at(path), self._at(path)
            if now == before:
                continue
            if here not in (before, now):
                clashes.append(path)
            self.written.pop(path, None)
            self.deleted.discard(path)
            if now is not None:
                self.written[path] = now
            elif path in self.seen:
                self.deleted.add(path)
            self._came[path] = now
        return tuple(clashes)

    def _at(self, path: str) -> bytes | None:
        return self.written[path] if path in self.written else None if path in self.deleted else self.seen.get(path)
