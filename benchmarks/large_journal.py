"""Journals as large runs leave them, written fast: the events of real SOPs (`large/*.yaml`), through the real Journal.

The run is left in the middle, as if it had been killed: `go_on` finds work to do. `sop log` and `sop show` may read it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.runtime.prepare import prepare
from metaflow_agents.schema.event import Committed, Entry, Event, Finished, Fired, Reserved, RunOpened, Settled, Version
from metaflow_agents.schema.keys import ActivationKey
from metaflow_agents.schema.model import canonical, digest
from metaflow_agents.schema.payload import Collection, Data, pack

Shape = Literal["wide", "many", "deep"]
"""One firing of all items; a hundred items a firing; a loop of two steps without items."""
SOPS = Path(__file__).parent / "large"
ITEMS = 100


def text_of(key: str, size: int) -> str:
    """A text of that many characters that hardly compresses, another one for each key."""
    return base64.b64encode(hashlib.shake_256(key.encode()).digest(size * 3 // 4)).decode()


def answering(size: int) -> Any:
    """A model that answers each call with a text of its own."""
    async def model(request: ModelRequest) -> str:
        return text_of(request.key, size)
    return model


def make_large_journal(path: Path, activations: int, *, shape: Shape = "many", size: int = 1000) -> None:
    """Writes the journal of a run that has finished that many activations, `size` characters each, and is not done.

    `path` is `WORKSPACE/.journals/RUN.db`. The run goes on with `answering(size)` as its model.
    """
    asyncio.run(_write(path, activations, shape, size))


async def _write(path: Path, activations: int, shape: Shape, size: int) -> None:
    prepared = prepare(SOPS / f"{shape}.yaml", model="dry")
    blobs = prepared.sources
    opened = RunOpened(run=path.stem, **prepared.identity, models={"*": f"python:{__name__}:answering.<locals>.model"},
                       sandbox="", package="0")
    made = {"wide": _wide, "many": _many, "deep": _deep}[shape](_Writing(size), activations)
    async with Journal.create(path) as journal:
        await journal.append(opened, blobs=blobs)
        for events, named in made:
            journal.post(*events, blobs=named)
            await asyncio.sleep(0)
        await journal.sync()


Append = tuple[list[Event], dict[str, bytes]]
Written = Iterator[Append]


class _Writing:
    """The events of activations, firings and commits."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._numbers: dict[str, int] = {}

    def version(self, artifact: str, payload: Any, blobs: dict[str, bytes]) -> Version:
        packed = pack(payload if isinstance(payload, Collection) else Data(value=payload))
        blobs[digest(packed)] = packed
        self._numbers[artifact] = self._numbers.get(artifact, 0) + 1
        return Version(artifact=artifact, number=self._numbers[artifact], payload=digest(packed))

    def given(self, **inputs: Any) -> Append:
        blobs: dict[str, bytes] = {}
        return [Committed(versions=tuple(self.version(name, value, blobs) for name, value in inputs.items()))], blobs

    def value(self, step: str, round_: int, read: dict[str, int], artifact: str, value: Any) -> Append:
        """A step without items, from firing to commit."""
        blobs: dict[str, bytes] = {}
        key = ActivationKey(step, round_, None, 0)
        version = self.version(artifact, value, blobs)
        return [Fired(step=step, round=round_, read=read), Finished(activation=str(key), payload=version.payload, seconds=0.01),
                Committed(firing=key.firing, versions=(version,))], blobs

    def item(self, step: str, round_: int, item: str) -> tuple[list[Event], dict[str, bytes], str]:
        """A model call and what it made, and the digest of that."""
        key = ActivationKey(step, round_, item, 0)
        text = text_of(f"{key}/turn.0", self.size)
        asked = f"Write {item}."
        request = canonical({"key": f"{key}/turn.0", "messages": [{"role": "user", "content": asked}]})
        reply = canonical({"text": text, "value": None, "tokens_in": 10, "tokens_out": self.size // 4})
        blobs = {digest(data): data for data in (request, reply, pack(Data(value=text)), asked.encode(), text.encode())}
        payload = digest(pack(Data(value=text)))
        entry = Entry(role="writer", activation=str(key), asked=digest(asked.encode()), answered=digest(text.encode()))
        call = f"{key}/turn.0"
        return [Reserved(key=call, role="writer", digest=digest(request), request=digest(request), model="m", tokens=9000),
                Settled(key=call, reply=digest(reply), tokens_in=10, tokens_out=self.size // 4),
                Finished(activation=str(key), payload=payload, memory=entry, seconds=0.01)], blobs, payload


def _wide(writing: _Writing, activations: int) -> Written:
    names = [str(number) for number in range(activations + 16)]
    yield writing.given(count=len(names))
    yield writing.value("name_them", 1, {"count": 1}, "names", names)
    yield [Fired(step="write", round=1, read={"names": 1}, items=tuple(names))], {}
    for name in names[:activations]:
        events, blobs, _ = writing.item("write", 1, name)
        yield events, blobs


def _many(writing: _Writing, activations: int) -> Written:
    rounds = -(-(activations + 1) // ITEMS)
    yield writing.given(rounds=rounds)
    left = activations
    for round_ in range(1, rounds + 1):
        names = [f"{round_}.{number}" for number in range(ITEMS)]
        yield writing.value("name_them", round_, {"rounds": 1, "pages": round_ - 1}, "names", names)
        yield [Fired(step="write", round=round_, read={"names": round_}, items=tuple(names))], {}
        entries = []
        for name in names[:left]:
            events, blobs, payload = writing.item("write", round_, name)
            yield events, blobs
            entries.append((name, payload))
        left -= len(entries)
        if len(entries) == ITEMS:
            packed: dict[str, bytes] = {}
            version = writing.version("pages", Collection(items=tuple(entries)), packed)
            yield [Committed(firing=f"write@{round_}", versions=(version,))], packed


def _deep(writing: _Writing, activations: int) -> Written:
    rounds = activations // 2
    filler = text_of("filler", writing.size)
    yield writing.given(rounds=rounds + 1, filler=filler)
    for round_ in range(1, rounds + 1):
        yield writing.value("choose", round_, {"rounds": 1, "page": round_ - 1}, "topic", f"topic {round_}")
        yield writing.value("write", round_, {"topic": round_, "filler": 1}, "page", f"topic {round_}{filler}")
