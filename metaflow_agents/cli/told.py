"""A run, as its journal tells it to the views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from metaflow_agents.errors import UsageError

if TYPE_CHECKING:
    from metaflow_agents.views.story import Told


@contextmanager
def telling(workspace: Path, name: str) -> Iterator[Told]:
    """The run while its journal is open for reading, which may still be written. Raises UsageError, JournalError."""
    from metaflow_agents.journal.glance import RawJournal
    from metaflow_agents.journal.outline import outline
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.journal.values import Values
    from metaflow_agents.schema.program import Program
    from metaflow_agents.views.story import Told

    with RawJournal(journal_path(workspace, name)) as journal:
        run = outline(journal)
        if not run.compiled:
            raise UsageError(f"run `{name}` was killed before it began: there is nothing in {journal.path}")
        program = Program.model_validate_json(journal.blob(run.compiled))
        yield Told(name, program, run, Values(journal.blob, run), workspace)
