"""The fold: a run's events → the commits of its repository. Nothing here knows of git, or writes.

A commit for what the run was given, one for each firing that made versions, and one where a resume goes on with another
SOP: its files may lie elsewhere then. The events decide alone, so the same journal gives the same commits whenever, and
however often, they are worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.journal.tree import Leaf, Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.output.history import wording
from metaflow_agents.output.history.wording import DoneStep, StepFiring
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.program import Program

KINDS = ("run_opened", "resumed", "fired", "finished", "committed", "documented")
"""The events that `commits` needs; others change nothing."""

Raw = Mapping[str, Any]
"""An event as it stands in the journal: JSON, without the fields that are at their defaults."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit to be: the event that it comes from, whose it is, what it says, and which files change.

    `at` is Unix time in seconds. A commit may change no file: a version that lies in none is a part of the minutes too.
    """

    seq: int
    at: float
    author: str
    message: str
    written: Mapping[str, Leaf] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()


def commits(events: Iterable[tuple[int, Raw]], blob: Callable[[str], bytes]) -> Iterator[Commit]:
    """The commits of a run, oldest first, from its events with their numbers; `blob` gives the bytes of a digest."""
    fold = CommitFold(blob)
    return (commit for seq, event in events if (commit := fold.take(seq, event)) is not None)


def is_commit(event: Raw) -> bool:
    """Whether an event becomes a commit; for who wants to count them only."""
    if event["kind"] == "committed":
        return event.get("firing") is None or bool(event.get("versions"))
    return event["kind"] == "documented" or (event["kind"] == "resumed" and bool(event.get("changes")))


class _Versions:
    """Artifact → the digests of its versions."""

    def __init__(self) -> None:
        self.made: dict[str, list[str]] = {}

    def version(self, artifact: str) -> int:
        """Number of its latest version; 0 where there is none."""
        return len(self.made.get(artifact, ()))

    def payload(self, artifact: str, version: int | None = None) -> str | None:
        """Digest of a version's payload (by default the latest); None where there is none."""
        found = self.made.get(artifact, [])
        number = len(found) if version is None else version
        return found[number - 1] if 0 < number <= len(found) else None


class CommitFold:
    """What the commits so far amount to. `held`: artifact → path → digest, as the last commit has it."""

    def __init__(self, blob: Callable[[str], bytes]) -> None:
        self.versions = _Versions()
        self._blob, self._values = blob, Values(blob, self.versions)
        self._firings: dict[str, StepFiring] = {}
        self.held: dict[str, Mapping[str, str]] = {}
        self._run = self._entry = ""

    def take(self, seq: int, event: Raw) -> Commit | None:
        """One more event, of any kind; the commit that it becomes."""
        take: Callable[[int, Raw], Commit | None] | None = getattr(self, f"on_{event['kind']}", None)
        return None if take is None else take(seq, event)

    def on_run_opened(self, _: int, event: Raw) -> None:
        """The program with which files are rendered, and the run's name."""
        self._run, self._entry = event["run"], event["entry"]
        self._take_program(event)

    def on_resumed(self, seq: int, event: Raw) -> Commit | None:
        """The program may be another from here on."""
        changes = event.get("changes", ())
        if not changes:
            return None
        self._take_program(event)
        artifacts = [name for name in self._program.sop.artifacts if self.versions.version(name)]
        gone = {path for name in self.held.keys() - set(artifacts) for path in self.held.pop(name)}
        written, deleted, notes = self._changed(artifacts)
        return Commit(seq, event["at"], wording.PERSON, wording.changed(changes, notes, seq),
                      written, (deleted | gone) - written.keys())

    def on_fired(self, _: int, event: Raw) -> None:
        """A firing begins: what it reads, and its items."""
        firing = StepFiring(event["step"], event["round"], event.get("read", {}), event.get("items"))
        self._firings[f"{firing.step}@{firing.round}"] = firing

    def on_finished(self, _: int, event: Raw) -> None:
        """An item is done: who did it."""
        key = parse_activation(event["activation"])
        role = (event.get("memory") or {}).get("role")
        self._firings[key.firing].done[key.item] = DoneStep(role, key.attempt, event.get("reused_from") or "")

    def on_committed(self, seq: int, event: Raw) -> Commit | None:
        """Versions exist from here on: those that were given, or those of a firing."""
        versions = event.get("versions", ())
        for version in versions:
            self.versions.made.setdefault(version["artifact"], []).append(version["payload"])
        firing = None if event.get("firing") is None else self._firings.pop(event["firing"])
        if not is_commit(event):
            return None
        names = [f"{version['artifact']}@{version['number']}" for version in versions]
        written, deleted, notes = self._changed([version["artifact"] for version in versions])
        if firing is None:
            message, author = wording.given(self._run, self._entry, names, notes, seq), wording.PERSON
        else:
            step = self._program.sop.steps.get(firing.step)
            roles = firing.roles(step, self._program.sop.roles)
            author = wording.author(firing, roles)
            message = wording.made(firing, step, roles, names, event.get("reused", ()), notes, seq)
        return Commit(seq, event["at"], author, message, written, deleted)

    def on_documented(self, seq: int, event: Raw) -> Commit:
        """A version has other documents from here on."""
        self.versions.made[event["artifact"]][event["number"] - 1] = event["payload"]
        written, deleted, notes = self._changed([event["artifact"]])
        name = f"{event['artifact']}@{event['number']}"
        return Commit(seq, event["at"], wording.PERSON, wording.documented(name, notes, seq), written, deleted)

    def _take_program(self, event: Raw) -> None:
        self._program = _program(self._blob(event["compiled"]))
        self._tree = Tree(self._program, self._values, self.versions, self._run)

    def _changed(self, artifacts: Sequence[str]) -> tuple[dict[str, Leaf], frozenset[str], list[str]]:
        """What the latest versions of these artifacts change: files written, paths deleted, and what has to be said."""
        written: dict[str, Leaf] = {}
        deleted: set[str] = set()
        notes = []
        for name in artifacts:
            if name not in self._program.sop.artifacts:
                continue                                    # an input: what was given is not what the run made
            before = self.held.get(name, {})
            try:
                held, changed = self._tree.changes(name, self.versions.payload(name) or "", before)
            except ExpressionError as error:                # the folder could not be written either, and the run stopped there
                notes.append(f"Its file is not written: {error}")
                continue
            written.update(changed)
            deleted |= before.keys() - held.keys()
            self.held[name] = held
        return written, frozenset(deleted - written.keys()), notes


@lru_cache(maxsize=8)
def _program(stored: bytes) -> Program:
    """A compiled SOP; the runs of a process are often those of one."""
    return Program.model_validate_json(stored)
