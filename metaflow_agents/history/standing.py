"""How far a run's repository is, without working its history out: by what stands at the end of its branch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from metaflow_agents.history.wording import MESSAGE

_TRAILER = re.compile(rf"^{MESSAGE}: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Standing:
    """The last commit of the run's branch: its id and first line.

    `message` is the number of the event that it was made of, by its own word; 0 where it is not one of the run's.
    `kept` are the branches that hold what somebody else committed there.
    """

    head: str
    subject: str
    message: int = 0
    kept: tuple[str, ...] = ()


def standing(folder: Path) -> Standing | None:
    """Of the repository in a run's folder; None where there is none, or its branch has no commit that can be read."""
    if not (folder / ".git").is_dir():
        return None
    from metaflow_agents.history.repository import Repository

    repository = Repository(folder)
    name = repository.main()
    commit = None if name is None else repository.commit(name)
    if name is None or commit is None:
        return None
    text = commit.message.decode("utf-8", "replace")
    subject, _, body = text.partition("\n")
    found = _TRAILER.findall(body)
    return Standing(name.decode()[:12], subject, int(found[-1]) if found else 0, tuple(repository.kept()))
