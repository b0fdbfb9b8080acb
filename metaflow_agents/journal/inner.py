"""The journal of a sub-SOP: a part of the journal of the run that it belongs to, by the key of the activation that it is.

What its steps do is wrapped (`Inner`); its calls, tools and questions stand there by themselves, under keys that begin with the
activation's, so that recordings, the audit and people find them where those of any other activation are. A resume finds all of
it in the fold, and goes on inside.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from metaflow_agents.journal.audit import RECORDS, link
from metaflow_agents.journal.journal import Journal, Listener
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.store import MemoryStore
from metaflow_agents.schema.event import Committed, Event, Failed, Finished, Fired, Inner, Sent
from metaflow_agents.schema.keys import parse_activation

_NONE: Mapping[str, bytes] = MappingProxyType({})
_WRAPPED = (Fired, Finished, Failed, Committed, Sent, Inner)


class InnerJournal(Journal):
    """Stands where a run's own journal would stand. `key` is that of the activation. To be closed when its run rests."""

    def __init__(self, outer: Journal, key: str) -> None:
        super().__init__(MemoryStore(), writable=False)
        self._outer, self._key = outer, key
        self._hears: list[tuple[list[Listener], Listener]] = []
        for theirs, own in ((outer.listeners, self.listeners), (outer.early, self.early)):
            hear = self._heard(own)
            theirs.append(hear)
            self._hears.append((theirs, hear))

    @property
    def begun(self) -> bool:
        """Whether the sub-SOP has its inputs already."""
        return self._state_there() is not None

    @property
    def state(self) -> RunState:
        """How the sub-SOP stands. It is there from its first event on."""
        found = self._state_there()
        if found is None:
            raise RuntimeError("a sub-SOP has a state once it has begun")
        return found

    @property
    def last(self) -> int:
        """Number of the last event that is durable."""
        return self._outer.last

    def blob(self, digest: str) -> bytes:
        """As the run's journal gives it."""
        return self._outer.blob(digest)

    async def append(self, *events: Event, blobs: Mapping[str, bytes] = _NONE) -> tuple[int, ...]:
        """See `Journal`."""
        return await self._outer.append(*self._outward(events), blobs=blobs)

    def post(self, *events: Event, blobs: Mapping[str, bytes] = _NONE) -> None:
        """See `Journal`."""
        self._outer.post(*self._outward(events), blobs=blobs)

    async def sync(self) -> None:
        """See `Journal`."""
        await self._outer.sync()

    async def close(self) -> None:
        """Hears no more. What was handed over is the run's."""
        for theirs, hear in self._hears:
            if hear in theirs:
                theirs.remove(hear)
        self._hears.clear()

    def _state_there(self) -> RunState | None:
        activation = parse_activation(self._key)
        firing = self._outer.state.active.get(activation.firing)
        return None if firing is None else firing.slot(activation.item).inner

    def _outward(self, events: tuple[Event, ...]) -> list[Event]:
        """The events as the run's journal takes them. The audit is one chain for the run and all of its sub-SOPs."""
        found: list[Event] = []
        chain = self._outer.state.chain
        for given in events:
            event = given if given.at else given.model_copy(update={"at": time.time()})
            if isinstance(event, _WRAPPED):
                found.append(Inner(at=event.at, activation=self._key, event=event))
                continue
            event = event.model_copy(update={"key": f"{self._key}/{event.key}"})            # type: ignore[union-attr]
            if isinstance(event, RECORDS):
                chain = link(chain, event)
                event = event.model_copy(update={"chain": chain})
            found.append(event)
        return found

    def _heard(self, listeners: list[Listener]) -> Listener:
        def hear(seq: int, event: Any) -> None:
            own: Event | None = None
            if isinstance(event, Inner):
                own = event.event if event.activation == self._key else None
            elif str(getattr(event, "key", "")).startswith(f"{self._key}/"):
                own = event.model_copy(update={"key": event.key.removeprefix(f"{self._key}/")})
            if own is not None:
                for listener in tuple(listeners):
                    listener(seq, own)
        return hear
