"""What the tests of the pages' projections share: a run's index, made event by event, and events made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.schema.program import Program
from metaflow_agents.views.ui.activations import Timeline
from metaflow_agents.views.ui.conversation import Conversations
from metaflow_agents.views.ui.index import RunIndex
from metaflow_agents.views.ui.shown import Showing
from metaflow_agents.views.ui.timeline_page import Wanted


class Read:
    """A run as the pages' projections see it. `until`: the last event that they have taken."""

    def __init__(self, journal: RawJournal, until: int | None = None) -> None:
        self.journal = journal
        compiled = [event["compiled"] for _, event in journal.events("run_opened", "resumed")][-1]
        self.program = Program.model_validate_json(journal.blob(compiled))
        self.index = RunIndex(self.program)
        for seq, event in journal.events(until=until):
            self.index.take(seq, event)
        self.showing = Showing(self.index.versions, self.program, journal.blob, journal.path.stem)

    def page(self, *, alive: bool = False, **wanted: Any) -> dict[str, Any]:
        return self.index.lines.page(Wanted(**wanted), alive=alive)

    def rows(self, **wanted: Any) -> dict[str, dict[str, Any]]:
        return {row["key"]: row for row in self.page(**wanted)["rows"]}

    def conversation(self, key: str, offset: int = 0) -> dict[str, Any]:
        return Conversations(self.index, self.journal).of(key, offset)


@contextmanager
def read(workspace: Path, name: str, until: int | None = None) -> Iterator[Read]:
    with RawJournal(journal_path(workspace, name)) as journal:
        yield Read(journal, until)


def texts(value: Any) -> Iterator[str]:
    """All texts in JSON data, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


class Clocked:
    """A time line of events made by hand, each at a second that is said."""

    def __init__(self) -> None:
        self.timeline, self._seq = Timeline(), 0
        self.at(0, "run_opened", run="it")

    def at(self, second: float, kind: str, **event: Any) -> None:
        self._seq += 1
        self.timeline.take(self._seq, {"kind": kind, "at": 1000.0 + second, **event})

    def fired(self, second: float, step: str, round_: int = 1, items: list[str] | None = None, **read: int) -> None:
        self.at(second, "fired", step=step, round=round_, read=read, items=items)

    def call(self, key: str, began: float, ended: float, **more: Any) -> None:
        self.at(began, "reserved", key=f"{key}/turn.0", model="m", role="clerk")
        self.at(ended, "settled", key=f"{key}/turn.0", tokens_in=10, tokens_out=5, **more)

    def finished(self, second: float, key: str, **more: Any) -> None:
        self.at(second, "finished", activation=key, payload="", **more)

    def committed(self, second: float, firing: str | None, *artifacts: str) -> None:
        made = [{"artifact": name, "number": self._number(name), "payload": ""} for name in artifacts]
        self.at(second, "committed", firing=firing, versions=made)

    def _number(self, name: str) -> int:
        return len(self.timeline._makers.get(("", name), [])) + 1
