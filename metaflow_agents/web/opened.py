"""A run, open for reading while a request is answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from metaflow_agents.journal.projection import outline
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.program import Program
from metaflow_agents.views.summary import Told


@dataclass(frozen=True)
class OpenRun:
    """`program`: what it runs, as it went on last; `journal`: its rows and blobs. What costs a look at all events is made when it
    is asked for.
    """

    name: str
    workspace: Path
    program: Program
    journal: RawJournal

    @cached_property
    def told(self) -> Told:
        """The run in outline, as `sop show` has it."""
        run = outline(self.journal)
        return Told(self.name, self.program, run, Values(self.journal.blob, run), self.workspace, self.journal.events)
