"""Where runs lie in a workspace, and what they may be called."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from metaflow_agents.errors import UsageError

WORKSPACE = Path("workspace")
JOURNALS = ".journals"
ARTIFACTS = ".artifacts"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def journal_path(home: Path | None, name: str) -> Path:
    """Where a run's journal lies. Raises UsageError for a name that can't be a run's."""
    if home is None:
        raise UsageError("a run that is kept in memory has no journal file; give it a workspace")
    return home / JOURNALS / f"{fine_name(name)}.db"


def artifacts_of(folder: Path) -> Path:
    """Where the artifacts of a run lie that have no file in its folder: that holds only what its SOP puts there."""
    return folder.parent / ARTIFACTS / folder.name


def run_names(workspace: Path | str = WORKSPACE) -> list[str]:
    """The runs of a workspace, by name."""
    return sorted(path.stem for path in (Path(workspace) / JOURNALS).glob("*.db"))


def fine_name(name: str) -> str:
    """A name that a run may have. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} can't be a run's name: letters, digits, `.`, `_` and `-`, 100 at most")
    return name


def never_began(name: str) -> UsageError:
    """What is told of a journal without an event: an older version was killed before it wrote one."""
    return UsageError(f"run `{name}` was killed before it began: its journal is empty; begin it under that name: "
                      f"`sop run FILE --name {name}`")


def folder_taken(folder: Path) -> bool:
    """Whether a new run can't have this folder, since it is a link, or holds something: a run removes what is not its own."""
    try:
        mode = folder.lstat().st_mode
    except OSError:                     # it is not there, or can't be: whoever makes it is told
        return False
    try:
        return not stat.S_ISDIR(mode) or any(folder.iterdir())
    except OSError:                     # a folder that may not be looked into
        return True


def refuse_taken(home: Path | None, name: str) -> None:
    """Raises UsageError where a new run of that name would find a folder with somebody's files in it, or a link."""
    if home is not None and folder_taken(home / name):
        raise UsageError(f"{home / name} is there already, and a run's folder is the run's alone: "
                         "give another name, or move it away")


def free_name(home: Path | None, base: str, number: int = 1) -> str:
    """The first of `base-1`, `base-2`, … from `number` on that no run of the workspace has."""
    if home is None:
        return base
    base = re.sub(r"-\d+$", "", base)
    while (home / JOURNALS / f"{base}-{number}.db").exists() or folder_taken(home / f"{base}-{number}"):
        number += 1
    return f"{base}-{number}"
