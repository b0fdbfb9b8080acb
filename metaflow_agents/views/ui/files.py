"""The files of a run's repository with their history: a fold of the journal, as the commits are (`output/history/plan.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.output.history.plan import KINDS, Commit, CommitFold
from metaflow_agents.schema.payload import Data, Files, unpack
from metaflow_agents.views.ui.texts import line

_FILES = 3_000                      # of the tree
_PATHS = 20                         # of one commit
_SIZED = 300                        # files whose sizes are told
_VERSIONS = 30                      # of a file, the latest


@dataclass(frozen=True, slots=True)
class Told:
    """A commit, without its files' bytes. `made`: the versions that it brings; `paths`: (path, sign, artifact, number of its
    version), the first ones; `changed`: how many in all.
    """

    seq: int
    message: str
    made: tuple[tuple[str, int], ...]
    paths: tuple[tuple[str, str, str, int], ...]
    changed: int


class FileHistory:
    """Bring it up to an event of a journal, then ask."""

    def __init__(self) -> None:
        self._journal: RawJournal | None = None
        self._fold = CommitFold(self._blob)
        self._seq = 0
        self.commits: list[Told] = []
        """The oldest first."""
        self._versions: dict[str, list[tuple[str, int, int]]] = {}      # path → (artifact, number, event) of each change

    def _blob(self, digest: str) -> bytes:
        if self._journal is None:
            raise RuntimeError("a payload is read while the journal is open")
        return self._journal.blob(digest)

    def update(self, journal: RawJournal, until: int) -> None:
        """Takes what is new, up to event number `until`. Raises JournalError."""
        self._journal = journal
        try:
            for seq, event in journal.events(*KINDS, after=self._seq, until=until):
                commit = self._fold.take(seq, event)
                if commit is not None:
                    self._add(commit, event)
            self._seq = max(until, self._seq)
        finally:
            self._journal = None

    def _add(self, commit: Commit, event: Mapping[str, Any]) -> None:
        known = self._versions.keys()
        signs = [*((path, " " if path in known else "+") for path in sorted(commit.written)),
                 *((path, "-") for path in sorted(commit.deleted))]
        made = event.get("versions") or ([event] if event["kind"] == "documented" else [])
        brought = tuple((version["artifact"], version["number"]) for version in made)
        of: dict[str, tuple[str, int]] = {}
        for artifact, number in brought:
            for path in self._fold.held.get(artifact, {}).keys() & commit.written.keys():
                of[path] = artifact, number
                self._versions.setdefault(path, []).append((artifact, number, commit.seq))
        paths = tuple((path, sign, *of.get(path, ("", 0))) for path, sign in signs[:_PATHS])
        self.commits.append(Told(commit.seq, commit.message, brought, paths, len(signs)))

    def tree(self, journal: RawJournal, who: Callable[[str, int], str]) -> dict[str, Any]:
        """The files as they are after the last commit. `who`: artifact and version → who made it."""
        held = {path: (artifact, digest) for artifact, paths in self._fold.held.items() for path, digest in paths.items()}
        parts = {artifact: self._parts(journal, artifact) for artifact in self._fold.held}
        found = []
        for number, path in enumerate(sorted(held)[:_FILES]):
            artifact, digest = held[path]
            versions = self._versions.get(path, [])
            found.append({
                "path": path, "told": line(path), "artifact": artifact, "number": self._fold.versions.version(artifact),
                "part": path if path in parts[artifact] else None, "bytes": _size(journal, digest) if number < _SIZED else None,
                "changes": len(versions),
                "versions": [{"artifact": name, "number": version, "seq": seq, "by": who(name, version)}
                             for name, version, seq in versions[:-_VERSIONS - 1:-1]]})
        return {"tree": found, "total": len(held)}

    def _parts(self, journal: RawJournal, artifact: str) -> Collection[str]:
        """The files that are asked for by their paths: those of a set of files, and documents made of a text."""
        payload = self._fold.versions.payload(artifact)
        held = None if payload is None else unpack(journal.blob(payload))
        return held.files if isinstance(held, Files) else held.documents if isinstance(held, Data) else ()


def _size(journal: RawJournal, digest: str) -> int | None:
    """Bytes of a file that the journal holds as it is; None of one that is rendered anew each time."""
    try:
        return len(journal.blob(digest))
    except JournalError:
        return None
