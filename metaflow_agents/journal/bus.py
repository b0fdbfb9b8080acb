"""In-process asynchronous publish/subscribe on top of the journal: a message is in the journal before anyone sees it.

For everybody outside of the engine that means on disk. The scheduler, whose every deed goes through the journal again, hears
by `handed` what was handed over and lies in the journal's queue: what it makes of it is written behind it, or never.

    async with bus.subscribe("prd") as messages:
        async for message in messages: ...

A subscriber has a bounded queue. One that lags blocks nobody and loses nothing: past its bound it is fed from the journal
again, until it has caught up with what is published now.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar, overload

from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.binary import loaded
from metaflow_agents.schema.event import Committed, Event, Sent
from metaflow_agents.schema.keys import parse_firing
from metaflow_agents.schema.message import Message
from metaflow_agents.schema.model import Value, digest
from metaflow_agents.schema.payload import Data, pack
from metaflow_agents.schema.trust import joined

T = TypeVar("T")
E = TypeVar("E", bound=Value)
EVERYBODY = "*"
"""The topic of a broadcast. A direct message's topic is the role that it is sent to, an artifact's its name."""
_QUEUE = 256
_NONE: Mapping[str, bytes] = MappingProxyType({})


class Subscription(Generic[T]):
    """What one subscriber hears, in the order of the journal, each thing once: `async for`, or `get()`.

    It ends (StopAsyncIteration) when it is closed, or when the bus is closed and all was delivered. For the bus's own loop.
    """

    def __init__(
        self,
        bus: Bus,
        kinds: Sequence[type[Any]],
        wanted: Callable[[Any], bool],
        made: Callable[[int, Any], Iterable[T]],
        *,
        after: int | None,
        maxsize: int | None,
    ) -> None:
        if maxsize is not None and maxsize < 1:
            raise UsageError(f"maxsize is {maxsize}: a subscriber's queue holds at least 1")
        self._bus, self._kinds, self._wanted, self._made = bus, tuple(kinds), wanted, made
        self._maxsize = maxsize or sys.maxsize
        self._queue: deque[tuple[int, Any]] = deque()
        self._ready: deque[T] = deque()  # made of the event at the head of the queue
        self._news = asyncio.Event()
        self._position = bus.journal.last if after is None else after  # each event up to here is delivered, queued, or not wanted
        self._lagging = self._position < bus.journal.last
        self._closed = False

    @property
    def lagging(self) -> bool:
        """Whether it is being fed from the journal, because its queue overflowed or it began in the past."""
        return self._lagging

    @property
    def queued(self) -> int:
        """Events that wait in its queue; never more than `maxsize`."""
        return len(self._queue)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self.get()

    async def get(self) -> T:
        """The next one. Raises StopAsyncIteration at the end; a caller that is cancelled while it waits loses nothing."""
        while not self._closed:
            if self._ready:
                return self._ready.popleft()
            if self._queue:
                seq, event = self._queue[0]
                self._ready.extend(self._made(seq, event))
                self._queue.popleft()
            elif self._lagging:
                self._catch_up()
                await asyncio.sleep(0)  # a long replay leaves the others their turn
            elif self._bus.closed:
                break
            else:
                self._news.clear()
                await self._news.wait()
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends it; whoever waits in `get` is told. Calling it again does nothing."""
        self._closed = True
        self._queue.clear()
        self._ready.clear()
        self._bus._leave(self)
        self._news.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _hear(self, seq: int, event: Event) -> None:
        if self._lagging or seq <= self._position or not self._wanted(event):
            return
        if len(self._queue) >= self._maxsize:
            self._lagging = True  # past `_position` the journal has it
        else:
            self._queue.append((seq, event))
            self._position = seq
        self._news.set()

    def _wake(self) -> None:
        self._news.set()

    def _hears(self, kind: type[Any]) -> bool:
        return not self._kinds or issubclass(kind, self._kinds)

    def _catch_up(self) -> None:
        # No `await` in here: between reading the tail and going live nothing can be published.
        read = 0
        for seq, event in self._bus.journal.events(*self._kinds, after=self._position, limit=self._maxsize):
            read += 1
            self._position = seq
            if self._wanted(event):
                self._queue.append((seq, event))
        if read < self._maxsize:
            self._lagging = False


class _Audience:
    """Subscriptions, and for each kind of event those that may want it: most events are for nobody."""

    def __init__(self) -> None:
        self._all: list[Subscription[Any]] = []
        self._of: dict[type[Any], list[Subscription[Any]]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, subscription: Subscription[Any]) -> None:
        self._all.append(subscription)
        self._of.clear()

    def drop(self, subscription: Subscription[Any]) -> None:
        if subscription in self._all:
            self._all.remove(subscription)
            self._of.clear()

    def tell(self, seq: int, event: Event) -> None:
        kind = type(event)
        found = self._of.get(kind)
        if found is None:
            found = self._of[kind] = [subscription for subscription in self._all if subscription._hears(kind)]
        for subscription in found:
            subscription._hear(seq, event)

    def dismiss(self) -> None:
        """Wakes everybody and forgets them."""
        for subscription in self._all:
            subscription._wake()
        self._all.clear()
        self._of.clear()


class Bus:
    """The way from who makes to who is told. `plain` gives a payload's plain data by digest (default: from the journal)."""

    def __init__(self, journal: Journal, *, plain: Callable[[str], Any] | None = None) -> None:
        self.journal = journal
        self.closed = False
        values = Values(journal.blob, journal.state)
        self._plain = (lambda digest: loaded(values.plain(digest))) if plain is None else plain
        self._subscriptions, self._early = _Audience(), _Audience()
        journal.listeners.append(self._subscriptions.tell)
        journal.early.append(self._early.tell)

    async def publish(self, *events: Event, blobs: Mapping[str, bytes] = _NONE) -> tuple[int, ...]:
        """Appends to the journal, then delivers; returns the events' numbers. Raises JournalError."""
        return await self.journal.append(*events, blobs=blobs)

    def post(self, *events: Event, blobs: Mapping[str, bytes] = _NONE) -> None:
        """Like `publish`, without waiting; what fails is raised by the next `publish`, or when the journal closes."""
        self.journal.post(*events, blobs=blobs)

    async def sync(self) -> None:
        """Returns when all that was published and posted before is on disk. Raises JournalError."""
        await self.journal.sync()

    async def send(self, sender: str, to: str, payload: Any, *, untrusted: str = "", key: str = "") -> int:
        """A direct message from one role (or program) to a role's inbox. `payload` is any JSON value. Returns its number.

        `untrusted` says where its words came from, if from outside the user: a mail, a page. `key` is that of a question inside
        an activation; such a word is heard on the bus, and stands in no prompt of a later activation.
        """
        return await self._say(sender, to, payload, untrusted, key)

    async def broadcast(self, sender: str, payload: Any, *, untrusted: str = "") -> int:
        """A message to the inboxes of all other roles. `payload` and `untrusted` are as for `send`. Returns its number."""
        return await self._say(sender, None, payload, untrusted)

    def subscribe(self, *artifacts: str, after: int | None = None, maxsize: int = _QUEUE) -> Subscription[Message]:
        """A message for each new version of these artifacts (of every artifact, where none is named).

        `after` is the number of an event: 0 begins with the first version ever; None with what is published from now on.
        """
        return self._add(Subscription(
            self, (Committed,), lambda event: _touches(event, artifacts),
            lambda seq, event: self._versions(seq, event, artifacts), after=after, maxsize=maxsize))

    @overload
    def events(self, *, after: int | None = None, maxsize: int = _QUEUE) -> Subscription[tuple[int, Event]]: ...

    @overload
    def events(self, *kinds: type[E], after: int | None = None, maxsize: int = _QUEUE) -> Subscription[tuple[int, E]]: ...

    def events(self, *kinds: type[Any], after: int | None = None, maxsize: int = _QUEUE) -> Subscription[Any]:
        """The events themselves, with their numbers: of these kinds, or all of them."""
        return self._add(Subscription(
            self, kinds, lambda event: True, lambda seq, event: ((seq, event),), after=after, maxsize=maxsize))

    def handed(self, *kinds: type[E]) -> Subscription[tuple[int, E]]:
        """Events of these kinds as they are handed to the journal from now on, before they are on disk.

        Only for who does nothing that shows before it is journalled in its turn. Its queue has no bound.
        """
        subscription: Subscription[tuple[int, E]] = Subscription(
            self, kinds, lambda event: True, lambda seq, event: ((seq, event),), after=None, maxsize=None)
        self._early.add(subscription)
        return subscription

    def inbox(
        self, role: str, watches: Sequence[str] = (), *, after: int | None = None, maxsize: int = _QUEUE
    ) -> Subscription[Message]:
        """What a role hears: what was sent to it, what others broadcast, and new versions of the artifacts that it watches."""
        def wanted(event: Committed | Sent) -> bool:
            if isinstance(event, Sent):
                return event.to == role or (event.to is None and event.sender != role)
            return bool(watches) and _touches(event, watches)

        def made(seq: int, event: Committed | Sent) -> Iterable[Message]:
            return (self._word(seq, event),) if isinstance(event, Sent) else self._versions(seq, event, watches)

        return self._add(Subscription(self, (Committed, Sent), wanted, made, after=after, maxsize=maxsize))

    def close(self) -> None:
        """Takes leave of the journal. Subscriptions deliver what was published before, then end."""
        if self.closed:
            return
        self.closed = True
        self.journal.listeners.remove(self._subscriptions.tell)
        self.journal.early.remove(self._early.tell)
        self._subscriptions.dismiss()
        self._early.dismiss()

    def _add(self, subscription: Subscription[T]) -> Subscription[T]:
        if not self.closed:
            self._subscriptions.add(subscription)
        return subscription

    def _leave(self, subscription: Subscription[Any]) -> None:
        self._subscriptions.drop(subscription)
        self._early.drop(subscription)

    async def _say(self, sender: str, to: str | None, payload: Any, untrusted: str, key: str = "") -> int:
        data = pack(Data(value=payload))
        sent = Sent(sender=sender, to=to, payload=digest(data), untrusted=joined(untrusted), key=key)
        (seq,) = await self.publish(sent, blobs={digest(data): data})
        return seq

    def _versions(self, seq: int, event: Committed, artifacts: Sequence[str]) -> Iterable[Message]:
        made_from = {} if event.firing is None else dict(self.journal.state.firing_reads(event.firing))
        sender = None if event.firing is None else parse_firing(event.firing)[0]
        return [
            Message(
                kind="artifact", seq=seq, topic=version.artifact, sender=sender, version=version.number,
                firing=event.firing, made_from=made_from, payload=self._plain(version.payload),
                untrusted=version.untrusted,
            )
            for version in event.versions if not artifacts or version.artifact in artifacts
        ]

    def _word(self, seq: int, event: Sent) -> Message:
        return Message(
            kind="broadcast" if event.to is None else "direct", seq=seq, topic=event.to or EVERYBODY,
            sender=event.sender, to=event.to, payload=self._plain(event.payload), untrusted=event.untrusted,
        )


def _touches(event: Committed, artifacts: Sequence[str]) -> bool:
    return any(not artifacts or version.artifact in artifacts for version in event.versions)
