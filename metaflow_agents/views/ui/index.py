"""What the pages of one run ask again and again, kept up to date event by event: no page reads a journal from its beginning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from metaflow_agents.journal.ledger import KINDS, Ledger
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.schema.keys import LOOK
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.step import Step
from metaflow_agents.views.graph import worker_of
from metaflow_agents.views.ui.activations import Timeline
from metaflow_agents.views.ui.timeline_page import Lines
from metaflow_agents.views.ui.versions import VersionsMade


class RunIndex:
    """Take every event of a run, in order. `program` is the one in force: give another index another one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.timeline, self.versions = Timeline(), VersionsMade()
        self.seq = 0
        self._ledger, self._counted = Ledger(), 0

    def take(self, seq: int, event: Mapping[str, Any]) -> None:
        """One more event."""
        self.timeline.take(seq, event)
        self.versions.take(seq, event)
        self.seq = seq

    def costs(self, journal: RawJournal) -> Ledger:
        """What the run cost up to the last event that was taken; what came since it was asked for last is added."""
        self._counted = self._ledger.take(journal.events(*KINDS, after=self._counted, until=self.seq)) or self._counted
        return self._ledger

    @cached_property
    def lines(self) -> Lines:
        """The time line, as pages ask for it."""
        return Lines(self.timeline, {LOOK: "a look at the run", **{path: worker_of(step) for path, step in self.steps.items()}},
                     {path for path, step in self.steps.items() if step.foreach is not None and step.foreach.after is not None})

    @cached_property
    def steps(self) -> dict[str, Step]:
        """Path of a step, `write/draft` in a sub-SOP → the step."""
        return dict(_steps(self.program, ""))

    def who(self, firing: str) -> str:
        """Who did a firing: its roles, or in words what does its step."""
        found = self.timeline.firings.get(firing)
        return "" if found is None else " and ".join(self.roles(firing)) or self.lines.roles.get(found.path, "")

    def version_by(self, artifact: str, number: int) -> str:
        """Who made a version of an artifact; nobody what was given."""
        firing = self.versions.of[artifact][number - 1].firing
        return "" if firing is None else self.who(firing)

    def roles(self, firing: str) -> list[str]:
        """The roles that carried out a firing; none where no role does its step."""
        found = self.timeline.firings.get(firing)
        return [] if found is None else list(dict.fromkeys(row.role for row in found.rows if row.role))


def _steps(program: Program, before: str) -> Iterator[tuple[str, Step]]:
    for name, step in program.sop.steps.items():
        yield before + name, step
        inner = program.sops.get(step.sop or "")
        if inner is not None:
            yield from _steps(inner, f"{before}{name}/")
