"""Writing before acting: at each call of a model, a command, a function or a tool, its own event is in the journal's file.

A prefix of a journal tells nothing of what was done before it was written, so this is asserted while a run is recorded. Own is:
the reservation of this try of a model's call; the intention of this effect; the decision about this action; for whatever is
looked at or run in a step, that the step has fired. Who listens to a run hears of nothing that is not in the file either.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from crash_harness import NAME

from metaflow_agents.agent.tool_executor import Acting
from metaflow_agents.journal.inner import InnerJournal
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.models.python import PythonModel
from metaflow_agents.schema.keys import firing_key, parse_activation
from metaflow_agents.steps.effects import Effects
from metaflow_agents.steps.side_effects import Observations


@dataclass
class Written:
    """What is in the journal's file, read by a connection of its own; what was done before, and how often what was checked."""

    path: Path
    faults: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    _seq: int = 0
    _on_disk: Counter[tuple[str, str]] = field(default_factory=Counter)
    _done: Counter[tuple[str, str]] = field(default_factory=Counter)

    def must_tell(self, kind: str, key: str, *, each: bool = True) -> None:
        """That this event is there; of `each` of several with one key, as often as it was acted upon."""
        self._read()
        self.checked[kind] += 1
        self._done[kind, key] += 1
        times = sum(many for (its, name), many in self._on_disk.items()
                    if its == kind and (name == key or name.endswith(f"/{key}")))
        if times < (self._done[kind, key] if each else 1):
            self.faults.append(f"acted before that was written: {kind} {key}")

    def must_reach(self, seq: int) -> None:
        """That all events up to a number are there."""
        if seq > self._seq:
            self._read()
        self.checked["heard"] += 1
        if seq > self._seq:
            self.faults.append(f"somebody was told of event {seq} before it was written")

    def _read(self) -> None:
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute("SELECT seq, kind, data FROM events WHERE seq > ? ORDER BY seq", (self._seq,)).fetchall()
        finally:
            connection.close()
        for seq, kind, data in rows:
            self._seq = seq
            event = {"kind": kind, **json.loads(data)}
            while event:                                # what a sub-SOP does stands in another event
                name = firing_key(event["step"], event["round"]) if event["kind"] == "fired" else event.get("key", "")
                self._on_disk[event["kind"], name] += 1
                event = event.get("event")


class _Watched:
    """A tool whose calls are checked."""

    def __init__(self, tool: Any, key: str, written: Written) -> None:
        self._tool, self._key, self._written = tool, key, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    async def call(self, arguments: Any, situation: Any) -> Any:
        if self._tool.effect(arguments) != "none":
            self._written.must_tell("intended", self._key)
        elif self._tool.action(arguments).acting:
            self._written.must_tell("decided", self._key, each=False)
        return await self._tool.call(arguments, situation)


@contextmanager
def watched(home: Path) -> Iterator[Written]:
    """Checks every call of the runs in this home that are made inside; what was done too early stands in `faults` then."""
    written = Written(journal_path(home, NAME))
    ask, carry_out, do_once, look_once = PythonModel.ask, Acting._carried_out, Effects.once, Observations.once
    enter = Journal.__aenter__

    async def asking(model: PythonModel, request: Any) -> Any:
        written.must_tell("reserved", request.key)
        return await ask(model, request)

    async def carrying_out(acting: Acting, key: str, tool: Any, *rest: Any) -> Any:
        return await carry_out(acting, key, _Watched(tool, key, written), *rest)

    async def doing(effects: Effects, key: str, what: str, arguments: Any, do: Any, gives: Any) -> Any:
        async def checked() -> Any:
            written.must_tell("intended", key)
            return await do()
        return await do_once(effects, key, what, arguments, checked, gives)

    async def looking(observations: Observations, key: str, look: Any) -> Any:
        async def checked() -> Any:
            written.must_tell("fired", parse_activation(key).firing, each=False)
            return await look()
        return await look_once(observations, key, checked)

    async def entering(journal: Journal) -> Any:
        if not isinstance(journal, InnerJournal) and journal.path == written.path:
            journal.listeners.insert(0, lambda seq, _: written.must_reach(seq))
        return await enter(journal)

    with mock.patch.object(PythonModel, "ask", asking), mock.patch.object(Acting, "_carried_out", carrying_out), \
            mock.patch.object(Effects, "once", doing), mock.patch.object(Observations, "once", looking), \
            mock.patch.object(Journal, "__aenter__", entering):
        yield written
