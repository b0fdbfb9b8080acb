"""A run, as its journal tells it to the views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from metaflow_agents.terminal import printing

if TYPE_CHECKING:
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.schema.program import Program
    from metaflow_agents.views.summary import Told


def hide_secrets(names: Iterable[str]) -> None:
    """What these variables hold is not printed by this process, whatever a journal says."""
    chosen = tuple(names)
    if chosen:
        from metaflow_agents.settings import Settings
        from metaflow_agents.tools.secrets import Secrets

        printing.redact(chosen, Secrets(chosen, Settings.read().variable).masked)


@contextmanager
def telling(workspace: Path, name: str) -> Iterator[Told]:
    """The run while its journal is open for reading, which may still be written. Raises UsageError, JournalError."""
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.journal.projection import outline
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.journal.values import Values
    from metaflow_agents.views.summary import Told

    with RawJournal(journal_path(workspace, name)) as journal:
        run = outline(journal)
        yield Told(name, program_of(journal, run.compiled), run, Values(journal.blob, run), workspace, journal.events)


def program_of(journal: RawJournal, compiled: str) -> Program:
    """The program of that digest, empty where the run never began; its secrets are hidden from then on. Raises UsageError."""
    from metaflow_agents.journal.places import never_began
    from metaflow_agents.schema.program import Program

    if not compiled:
        raise never_began(journal.path.stem)
    program = Program.model_validate_json(journal.blob(compiled))
    for one in program.all():
        hide_secrets(one.sop.secrets)
    return program
