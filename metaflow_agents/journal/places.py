"""Where runs lie in a workspace, and what they may be called."""

from __future__ import annotations

import re
from pathlib import Path

from metaflow_agents.errors import UsageError

WORKSPACE = Path("workspace")
JOURNALS = ".journals"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def journal_path(home: Path | None, name: str) -> Path:
    """Where a run's journal lies. Raises UsageError for a name that can't be a run's."""
    if home is None:
        raise UsageError("a run that is kept in memory has no journal file; give it a workspace")
    return home / JOURNALS / f"{fine_name(name)}.db"


def run_names(workspace: Path | str = WORKSPACE) -> list[str]:
    """The runs of a workspace, by name."""
    return sorted(path.stem for path in (Path(workspace) / JOURNALS).glob("*.db"))


def fine_name(name: str) -> str:
    """A name that a run may have. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} can't be a run's name: letters, digits, `.`, `_` and `-`, 100 at most")
    return name


def free_name(home: Path | None, base: str) -> str:
    """The first of `base-1`, `base-2`, … that no run of the workspace has."""
    if home is None:
        return base
    base = re.sub(r"-\d+$", "", base)
    number = 1
    while (home / JOURNALS / f"{base}-{number}.db").exists():
        number += 1
    return f"{base}-{number}"
