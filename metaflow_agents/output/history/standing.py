"""How far a run's repository is, without working its history out: by what stands at the end of its branch."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.output.history.plan import is_commit
from metaflow_agents.output.history.wording import MESSAGE

_TRAILER = re.compile(rf"^{MESSAGE}: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Standing:
    """The run's branch: how many commits the journal amounts to, how many of them are written, and the last one.

    `written` is that commit's own word; None where it is not one of the run's. `head` and `subject` are empty where
    there is no repository, or none with a commit that can be read. `kept` are the branches with commits of somebody
    else that stood where the run's go.
    """

    commits: int
    written: int | None = 0
    head: str = ""
    subject: str = ""
    kept: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What `sop show --json` prints."""
        return {**asdict(self), "kept": list(self.kept)}


def standing(journal: Path, folder: Path) -> Standing:
    """How the repository in a run's folder stands to the run's journal. Raises UsageError, JournalError."""
    with RawJournal(journal) as source:
        made = [seq for seq, event in source.events("committed", "documented", "resumed") if is_commit(event)]
    if not (folder / ".git").is_dir():
        return Standing(len(made))
    from metaflow_agents.output.history.repository import Repository

    repository = Repository(folder)
    name = repository.main()
    commit = None if name is None else repository.commit(name)
    kept = tuple(repository.kept())
    if name is None or commit is None:
        return Standing(len(made), kept=kept)
    subject, _, body = commit.message.decode("utf-8", "replace").partition("\n")
    message = [int(number) for number in _TRAILER.findall(body)][-1:]
    written = made.index(message[0]) + 1 if message and message[0] in made else None
    return Standing(len(made), written, name.decode()[:12], subject, kept)


def commit_ids(folder: Path, most: int) -> dict[int, str]:
    """Event of the journal → id of the commit that was made of it, of the last `most` commits that are written."""
    if not (folder / ".git").is_dir():
        return {}
    from metaflow_agents.output.history.repository import Repository

    found: dict[int, str] = {}
    for name, message in Repository(folder).last(most):
        numbers = _TRAILER.findall(message.partition("\n")[2])
        if numbers:
            found.setdefault(int(numbers[-1]), name)
    return found
