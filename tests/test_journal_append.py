"""The journal's promise to those who append: order, group commit, cancellation, errors."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import time
import tracemalloc
from collections.abc import AsyncIterator
from math import ceil
from pathlib import Path
from threading import Event as Gate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tiers import examples

from metaflow_agents.errors import JournalError
from metaflow_agents.journal import delta_window
from metaflow_agents.journal.cache import BlobCache
from metaflow_agents.journal.journal import _KINDS, Journal
from metaflow_agents.journal.store import Store
from metaflow_agents.journal.writer import _TURN, Writer
from metaflow_agents.schema.event import Committed, Event, RunEnded, Sent, Version
from metaflow_agents.schema.model import digest

EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class Fold:
    """A state that only counts: what is tried here is the log."""

    def __init__(self) -> None:
        self.seq = self.sent = 0

    def apply(self, seq: int, event: Event) -> None:
        self.seq = seq
        self.sent += isinstance(event, Sent)


@pytest.fixture(autouse=True)
def counting_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.journal.journal.RunState", Fold)


def said(text: object) -> Sent:
    return Sent(sender=str(text), payload="p")


@pytest.fixture(params=["file", "memory"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    made = Journal.create(tmp_path / "run.db") if request.param == "file" else Journal.in_memory()
    async with made:
        yield made


async def test_append_numbers_stamps_folds_and_tells_before_it_returns(journal: Journal) -> None:
    told: list[tuple[int, str, int]] = []
    journal.listeners.append(lambda seq, event: told.append((seq, event.sender, journal.state.sent)))
    journal.listeners.append(lambda seq, event: told.append((seq, "second", journal.last)))
    before = time.time()
    assert await journal.append(said("a"), said("b")) == (1, 2)
    assert told == [(1, "a", 2), (1, "second", 2), (2, "b", 2), (2, "second", 2)]
    assert await journal.append(Sent(sender="c", payload="p", at=5.0)) == (3,)
    events = dict(journal.events())
    assert before <= events[1].at == events[2].at <= time.time() and events[3].at == 5.0
    assert journal.last == journal.state.seq == 3


async def test_events_by_kind_place_and_limit(journal: Journal) -> None:
    for number in range(1200):
        journal.post(said(number) if number % 3 else Committed())
    await journal.sync()
    assert [seq for seq, _ in journal.events()] == list(range(1, 1201))
    assert [seq for seq, _ in journal.events(Committed)] == list(range(1, 1201, 3))
    assert [seq for seq, _ in journal.events(Committed, Sent, after=1190, limit=4)] == [1191, 1192, 1193, 1194]
    assert list(journal.events(RunEnded)) == list(journal.events(after=1200)) == []
    assert len(list(journal.events(Sent, limit=700))) == 700


async def test_every_kind_of_event_comes_back_as_it_was(journal: Journal) -> None:
    samples: list[Event] = []
    for kind, cls in _KINDS.items():
        schema = TypeAdapter(cls).json_schema()
        schema = {"$defs": schema.get("$defs", {}), **schema["$defs"][cls.__name__]} if "$ref" in schema else schema
        small = {name: smallest(schema, field) for name, field in schema["properties"].items()}
        needed = {name: value for name, value in small.items() if name in schema.get("required", ())}
        samples.append(EVENT.validate_python({**needed, "kind": kind, "at": 1.0}))
        samples.append(EVENT.validate_python({**small, "kind": kind, "at": 0.1}))
    await journal.append(*samples)
    assert [event for _, event in journal.events()] == samples
    assert len(samples) == 2 * len(_KINDS) >= 20


def smallest(schema: dict, field: dict) -> object:
    if "$ref" in field:
        target = schema["$defs"][field["$ref"].rsplit("/", 1)[1]]
        return {name: smallest(schema, inner) for name, inner in target["properties"].items()}
    for choice in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        return smallest(schema, choice)
    if "const" in field or "enum" in field:
        return field.get("const") or field["enum"][0]
    if field["type"] == "object":
        return {"ключ \u2028 \"": smallest(schema, field["additionalProperties"])}
    if field["type"] == "array":
        return [smallest(schema, field["items"])]
    return {"string": "text\n\x00é", "number": 0.1, "integer": 3, "boolean": True}[field["type"]]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40))
def test_order_is_that_of_the_calls(tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[bool, int, int]]) -> None:
    """Appends of several tasks and posts between them: numbers are consecutive, and log, fold and listeners agree."""
    path = tmp_path_factory.mktemp("order") / "run.db"
    handed: list[str] = []
    heard: list[str] = []

    async def main() -> None:
        async with Journal.create(path) as journal:
            journal.listeners.append(lambda seq, event: heard.append(event.sender))

            async def one(number: int, waits: bool, size: int, turns: int) -> None:
                for _ in range(turns):
                    await asyncio.sleep(0)
                names = [f"{number}.{place}" for place in range(size)]
                handed.extend(names)
                if waits:
                    seqs = await journal.append(*map(said, names))
                    assert [handed[seq - 1] for seq in seqs] == names
                    assert heard[: len(names)] and set(names) <= set(heard) if names else True
                else:
                    journal.post(*map(said, names))

            await asyncio.gather(*(one(number, *call) for number, call in enumerate(calls)))
            await journal.sync()
            assert heard == handed == [event.sender for _, event in journal.events(Sent)]

    asyncio.run(main())
    with Journal.read(path) as journal:
        assert [event.sender for _, event in journal.events(Sent)] == handed


class Counting(Store):
    commits = 0
    gate: Gate | None = None

    def _commit(self) -> None:
        if self.gate is not None:
            self.gate.wait()
        super()._commit()
        self.commits += 1


def counting(path: Path, gate: Gate | None = None) -> tuple[Journal, Counting]:
    journal = Journal.create(path)
    store = journal._store
    store.__class__ = Counting
    store.gate = gate
    return journal, store


async def test_appends_that_wait_share_a_transaction(tmp_path: Path) -> None:
    gate = Gate()
    journal, store = counting(tmp_path / "run.db", gate)
    async with journal:
        first = asyncio.create_task(journal.append(said(0)))
        await asyncio.sleep(0.05)                       # the writer is inside its first commit
        rest = [asyncio.create_task(journal.append(said(number))) for number in range(1, 1001)]
        await asyncio.sleep(0)
        assert journal.last == 0 and not first.done()   # nobody is told before it is durable
        gate.set()
        assert [await task for task in (first, *rest)] == [(number,) for number in range(1, 1002)]
        assert 2 <= store.commits <= 4                  # the writer may begin before all of them wait


async def test_what_is_handed_over_is_folded_at_once_and_told_when_it_is_durable(tmp_path: Path) -> None:
    gate = Gate()
    journal, _ = counting(tmp_path / "run.db", gate)
    early: list[tuple[int, int, int]] = []
    heard: list[int] = []
    journal.early.append(lambda seq, event: early.append((seq, journal.state.sent, journal.last)))
    journal.listeners.append(lambda seq, event: heard.append(seq))
    async with journal:
        journal.post(said(1), said(2))
        assert early == [(1, 2, 0), (2, 2, 0)] and heard == [] and journal.state.sent == 2
        gate.set()
        await journal.sync()
        assert heard == [1, 2] and journal.last == 2


async def test_what_nobody_waits_for_goes_with_what_somebody_waits_for(tmp_path: Path) -> None:
    journal, store = counting(tmp_path / "run.db")
    async with journal:
        for number in range(3):
            journal.post(said(number))
            for _ in range(3):
                await asyncio.sleep(0)
        assert await journal.append(said("waited for")) == (4,)
        assert store.commits == 1
        journal.post(said("alone"))
        await asyncio.wait_for(told(journal, 5), 10)     # and it is written where nothing follows
        assert store.commits == 2
        await journal.sync()
        assert store.commits == 2                        # nothing to wait for


async def told(journal: Journal, number: int) -> None:
    heard = asyncio.Event()
    journal.listeners.append(lambda seq, event: heard.set() if seq == number else None)
    await heard.wait()


@pytest.mark.one_in(4)
async def test_appends_under_load_wake_the_writer_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody holds it up: what one turn of the loop appends is handed over together. What that costs is a benchmark's matter."""
    journal, store = counting(tmp_path / "run.db")
    woken: list[int] = []
    inside = Writer._hand_over

    def counted(writer: Writer) -> None:
        woken.extend([len(writer._outbox)] if writer._outbox else [])
        inside(writer)

    monkeypatch.setattr(Writer, "_hand_over", counted)
    async with journal:
        for _ in range(3):
            await asyncio.gather(*(journal.append(said(number)) for number in range(1000)))
    assert sum(woken) == 3000 and store.commits <= len(woken) <= 3 * ceil(1000 / _TURN)


async def test_lone_appends_each_have_their_transaction(tmp_path: Path) -> None:
    journal, store = counting(tmp_path / "run.db")
    async with journal:
        for number in range(1, 201):
            assert await journal.append(said(number)) == (number,)
            assert store.commits == number              # and it is over when the append returns


async def test_a_cancelled_append_is_written_and_folded_once(tmp_path: Path) -> None:
    gate = Gate()
    journal, _ = counting(tmp_path / "run.db", gate)
    heard: list[str] = []
    journal.listeners.append(lambda seq, event: heard.append(event.sender))
    async with journal:
        tasks = [asyncio.create_task(journal.append(said(number))) for number in range(6)]
        await asyncio.sleep(0.02)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0)
        gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await journal.sync()
        assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False] * 3
        assert heard == [str(number) for number in range(6)] and journal.state.sent == 6
    with Journal.read(tmp_path / "run.db") as reading:
        assert [event.sender for _, event in reading.events(Sent)] == heard


async def test_closing_writes_what_was_posted_also_when_it_is_cancelled(tmp_path: Path) -> None:
    gate = Gate()
    journal, _ = counting(tmp_path / "run.db", gate)

    async def main() -> None:
        async with journal:
            journal.post(*map(said, range(50)))

    task = asyncio.create_task(main())
    await asyncio.sleep(0.02)
    task.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with Journal.open(tmp_path / "run.db") as again:     # the lock is free
        assert again.state.sent == 50
    with pytest.raises(JournalError, match="is closed"):
        await journal.append(said(1))


async def test_a_blob_is_readable_while_it_is_being_written(tmp_path: Path) -> None:
    gate = Gate()
    journal, _ = counting(tmp_path / "run.db", gate)
    async with journal:
        journal.post(said(1), blobs={digest(b"data"): b"data"})
        assert journal.blob(digest(b"data")) == b"data" and journal.last == 0
        with pytest.raises(JournalError, match="holds no blob"):
            journal.blob(digest(b"other"))
        gate.set()
        await journal.sync()
        assert journal._pending == {} and journal.blob(digest(b"data")) == b"data"


async def test_after_a_failed_write_all_who_wait_are_told_and_nothing_counts_as_written(tmp_path: Path) -> None:
    gate = Gate()
    journal, store = counting(tmp_path / "run.db", gate)
    store._commit = lambda: gate.wait() and store._writing().execute("this is no SQL")
    heard: list[int] = []
    journal.listeners.append(lambda seq, event: heard.append(seq))
    async with journal:
        tasks = [asyncio.create_task(journal.append(said(number))) for number in range(20)]
        await asyncio.sleep(0.02)
        gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, JournalError) for result in results)
        assert len({id(result) for result in results}) == 20
        assert journal.last == 0 and heard == []
        assert not store._writer.in_transaction         # rolled back at once, not only when it is closed
    assert os.listdir(tmp_path) == ["run.db"]
    async with Journal.open(tmp_path / "run.db") as again:
        assert again.last == again.state.sent == 0 and await again.append(said(1)) == (1,)


async def test_nothing_is_written_behind_a_failed_write(tmp_path: Path) -> None:
    gate = Gate()
    journal, store = counting(tmp_path / "run.db", gate)

    def fails_once() -> None:
        gate.wait()
        del store._commit
        raise sqlite3.OperationalError("disk I/O error")

    store._commit = fails_once
    async with journal:
        first = asyncio.create_task(journal.append(said(1)))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(journal.append(said(2)))      # a group of its own, queued while the first one fails
        await asyncio.sleep(0)
        gate.set()
        for task in (first, second):
            with pytest.raises(JournalError, match="disk I/O error"):
                await task
    with Journal.read(tmp_path / "run.db") as reading:
        assert list(reading.events()) == []


async def test_an_error_that_is_not_sqlites_reaches_the_waiter_too(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run.db") as journal:
        with pytest.raises(JournalError, match="TypeError"):
            await journal.append(said(1), blobs={digest(b""): 3})


async def test_a_listener_that_fails_stops_the_journal_and_the_appender_hears_why(journal: Journal) -> None:
    def failing(seq: int, event: Event) -> None:
        raise LookupError("subscriber is broken")

    journal.listeners.append(failing)
    with pytest.raises(JournalError, match="subscriber is broken") as caught:
        await journal.append(said(1))
    assert isinstance(caught.value.__cause__, LookupError)
    journal.listeners.clear()
    with pytest.raises(JournalError, match="subscriber is broken"):
        await journal.append(said(2))


@pytest.mark.parametrize("error", [asyncio.CancelledError("by nobody"), GeneratorExit(), BaseException("of a library")])
async def test_a_listener_that_raises_what_is_no_exception_leaves_no_appender_waiting(
        journal: Journal, error: BaseException) -> None:
    def failing(seq: int, event: Event) -> None:
        raise error

    journal.listeners.append(failing)
    async with asyncio.timeout(5):
        for number in (1, 2):
            with pytest.raises(JournalError, match=f"takes no more: {type(error).__name__}.* while events were told"):
                await journal.append(said(number))


async def test_a_listener_may_post_and_everybody_still_hears_in_order(journal: Journal) -> None:
    heard: list[tuple[str, int]] = []

    def answering(seq: int, event: Event) -> None:
        heard.append(("first", seq))
        if seq < 4:
            journal.post(said(seq))

    journal.listeners += [answering, lambda seq, event: heard.append(("second", seq))]
    await journal.append(said("a"))
    for _ in range(4):
        await journal.sync()
    assert heard == [(who, seq) for seq in range(1, 5) for who in ("first", "second")]


async def test_half_surrogate_pairs_are_written_as_their_escapes(journal: Journal) -> None:
    assert await journal.append(said("fine"), said("\ud800")) == (1, 2)
    assert await journal.append(said("next")) == (3,)
    assert [event for _, event in journal.events()][1].model_dump(exclude={"at"}) == said(r"\ud800").model_dump(exclude={"at"})


async def test_appends_need_the_context(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "run.db")
    with pytest.raises(JournalError, match="async with"):
        await journal.append(said(1))
    await journal.close()


@pytest.mark.one_in(3)
async def test_the_journal_holds_no_more_after_many_events_than_after_few(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_window, "_TEXTS", 16)         # the window of differences has bounds of its own: reached sooner
    monkeypatch.setattr(delta_window, "_ANCHORS", 64)
    async with Journal.create(tmp_path / "run.db") as journal:
        journal._recent = BlobCache(100_000)

        async def some(start: int) -> None:
            for number in range(start, start + 1500):
                data = b"%d " % number * 100
                version = Version(artifact="a", number=number, payload=digest(data))
                journal.post(Committed(versions=(version,)), blobs={digest(data): data})
                if number % 50 == 0:
                    await journal.sync()
            await journal.sync()

        await some(0)
        tracemalloc.start()
        try:
            await some(2000)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            await some(4000)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 50_000                  # 1,500 events with 700 kB of blobs passed through
        assert journal._recent.held <= 100_000 and not journal._pending


def test_the_cache_is_bounded_by_bytes_and_drops_the_oldest_use() -> None:
    cache = BlobCache(10)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert cache.get("a") == b"1234"
    cache.put("c", b"1234")
    assert cache.get("b") is None and cache.get("a") and cache.get("c") and cache.held == 8
    cache.put("large", b"x" * 11)
    assert cache.get("large") is None and cache.held == 8
