"""Journals that no run of this package has written: where a command stumbles over one, that is what is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

Command = Callable[..., int]


def of_runs(command: Command) -> Command:
    """The command, of which an error that nobody foresaw is told as a fault of a journal, where that is what it is."""
    @wraps(command)
    def guarded(*words: Any, **options: Any) -> int:
        from metaflow_agents.errors import MetaflowError

        try:
            return command(*words, **options)
        except (MetaflowError, OSError):
            raise
        except Exception as error:          # a bug, or a journal that holds what no run writes: only then it is told
            _tell(options, error)
            raise
    return guarded


def _tell(options: dict[str, Any], error: Exception) -> None:
    """Raises JournalError where a journal among those that the options name (or, where they name none, of all) is at fault."""
    from metaflow_agents.errors import JournalError
    from metaflow_agents.journal.integrity import fault
    from metaflow_agents.journal.places import JOURNALS, WORKSPACE, run_names

    workspace = Path(options.get("workspace") or WORKSPACE)
    there = run_names(workspace)
    named = [value for value in options.values() if isinstance(value, str) and value in there]
    for name in named or there:
        path = workspace / JOURNALS / f"{name}.db"
        found = fault(path)
        if found is not None:
            raise JournalError(f"{path} holds what no run writes: {found}; it is damaged, or somebody else made it: "
                               "restore the file from a copy, or remove it") from error
