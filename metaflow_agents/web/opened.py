"""A run, open for reading while a request is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from metaflow_agents.cli.told import hide_secrets
from metaflow_agents.journal.places import journal_path, never_began
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


@contextmanager
def opened(workspace: Path, name: str) -> Iterator[OpenRun]:
    """The run while its journal is open, which may still be written; secrets of its SOP are masked in all that this process sends
    from then on. Raises UsageError, JournalError.
    """
    with RawJournal(journal_path(workspace, name)) as journal:
        compiled = ""
        for _, event in journal.events("run_opened", "resumed"):
            compiled = event["compiled"]
        if not compiled:
            raise never_began(name)
        program = Program.model_validate_json(journal.blob(compiled))
        for one in program.all():
            hide_secrets(one.sop.secrets)
        yield OpenRun(name, workspace, program, journal)
