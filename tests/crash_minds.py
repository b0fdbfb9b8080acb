"""What a journal tells of the minds of its roles, in words: without times, and without keys that are made of times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.project import MemoryFile, ProjectMemory
from metaflow_agents.memory.store import MemoryDatabase
from metaflow_agents.schema.event import Entry, Observed


def timeless(state: RunState) -> dict[str, list[Entry]]:
    """Firing → what was remembered in it; a reflection cites by activations, as the keys of memories hold when the run began."""
    named = _named(state)
    return {firing: [entry.model_copy(update={"cites": tuple(named.get(key, key) for key in entry.cites)}) for entry in entries]
            for firing, entries in state.memory.items()}


def _named(state: RunState) -> Mapping[str, str]:
    """Memory of this run by its key → the activation, and of which kind it is where it is no turn."""
    key = ProjectMemory(MemoryFile(lambda: MemoryDatabase(None)), state, Values(_nothing, state), str, keeps=False).key
    return {key(entry): " ".join([entry.activation, *([] if entry.kind == "turn" else [entry.kind])])
            for entries in state.memory.values() for entry in entries}


def _nothing(digest: str) -> bytes:
    raise LookupError(digest)


def minds(journal: Journal) -> list[str]:
    """What was remembered besides what was asked and answered, and by which character; what came back to whose mind."""
    return sorted([*_kept(journal), *_found(journal)])


def _kept(journal: Journal) -> Iterator[str]:
    for entries in timeless(journal.state).values():
        for entry in entries:
            if entry.kind == "turn" and not entry.mind:
                continue
            what = f"{entry.activation}: {entry.kind} of {entry.whose}"
            on = f" on {', '.join(entry.cites)}" if entry.cites else ""
            of = f" of {entry.covers} before" if entry.covers else ""
            said = "" if entry.kind == "turn" else f": {' '.join(journal.blob(entry.answered).decode().split())}"
            yield f"{what}{on}{of}{said}"


def _found(journal: Journal) -> Iterator[str]:
    for _, event in journal.events(Observed):
        activation, _, what = event.key.rpartition("/")
        if what not in ("recalled", "lessons", "hindsight"):
            continue
        value = json.loads(journal.blob(event.payload))["value"]
        if what == "hindsight":
            told = [str(value["shown"])]
        else:
            told = [" ".join([*([one["run"]] if one["run"] not in ("", "run") else []), one["activation"]]) for one in value]
        if told:
            yield f"{activation}: {what} {', '.join(told)}"
