"""The bus: each subscriber gets exactly its topics, in order, once, however slow it is."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE
from tiers import examples

from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.bus import Bus, Subscription
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Committed, Event, Fired, RunEnded, Sent, Version
from metaflow_agents.schema.message import Message
from metaflow_agents.schema.model import digest
from metaflow_agents.schema.payload import Data, pack


@pytest.fixture(params=["file", "memory"])
async def bus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bus]:
    journal = Journal.create(tmp_path / "run.db") if request.param == "file" else Journal.in_memory()
    async with journal:
        made = Bus(journal)
        yield made
        made.close()


def made(*versions: tuple[str, int], firing: str | None = None, value: Any = "v") -> tuple[Committed, dict[str, bytes]]:
    data = pack(Data(value=value))
    return Committed(firing=firing, versions=tuple(Version(artifact=a, number=n, payload=digest(data)) for a, n in versions)), {
        digest(data): data}


async def drain(subscription: Subscription[Any]) -> list[Any]:
    return [message async for message in subscription]


async def test_a_message_carries_what_its_version_was_made_from(bus: Bus) -> None:
    messages = bus.subscribe("prd")
    idea, blobs = made(("idea", 1), value="a calculator")
    await bus.publish(idea, blobs=blobs)
    await bus.publish(Fired(step="write_prd", round=1, read={"idea": 1, "notes": 0}))
    prd, blobs = made(("prd", 1), ("other", 1), firing="write_prd@1", value={"title": "t"})
    (seq,) = await bus.publish(prd, blobs=blobs)
    assert await messages.get() == Message(
        kind="artifact", seq=seq, topic="prd", sender="write_prd", version=1, firing="write_prd@1",
        made_from={"idea": 1, "notes": 0}, payload={"title": "t"})
    everything = bus.subscribe(after=0)
    first = await everything.get()
    assert (first.topic, first.sender, first.made_from, first.payload) == ("idea", None, {}, "a calculator")
    assert [(await everything.get()).topic for _ in range(2)] == ["prd", "other"]


async def test_a_subscriber_sees_nothing_before_it_is_in_the_journal(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run.db") as journal:
        bus = Bus(journal)
        subscription = bus.events(Sent)
        bus.post(Sent(sender="a", payload="p"))
        waiting = asyncio.create_task(subscription.get())
        seq, event = await waiting
        with Journal.read(tmp_path / "run.db") as reading:
            assert (seq, event) in list(reading.events())
        bus.close()


async def test_direct_words_broadcasts_and_watched_artifacts(bus: Bus) -> None:
    engineer, architect = bus.inbox("engineer", watches=["prd"]), bus.inbox("architect")
    await bus.send("architect", "engineer", {"ask": "which database?"})
    await bus.send("engineer", "architect", "sqlite")
    seq = await bus.broadcast("architect", [1, 2])
    for topic in ("prd", "design"):
        event, blobs = made((topic, 1))
        await bus.publish(event, blobs=blobs)
    bus.close()
    heard = await drain(engineer)
    assert [(m.kind, m.topic, m.sender, m.payload) for m in heard] == [
        ("direct", "engineer", "architect", {"ask": "which database?"}),
        ("broadcast", "*", "architect", [1, 2]),
        ("artifact", "prd", None, "v"),
    ]
    assert heard[1].seq == seq and heard[0].to == "engineer" and heard[1].to is None
    assert [(m.kind, m.payload) for m in await drain(architect)] == [("direct", "sqlite")]     # not its own broadcast


async def test_events_of_chosen_kinds(bus: Bus) -> None:
    words, all_of_it = bus.events(Sent, RunEnded), bus.events()
    await bus.publish(Committed(), Sent(sender="a", payload="p"), RunEnded(outcome="success"))
    bus.close()
    assert [(seq, type(event)) for seq, event in await drain(words)] == [(2, Sent), (3, RunEnded)]
    assert [seq for seq, _ in await drain(all_of_it)] == [1, 2, 3]


@pytest.mark.one_in(4)
async def test_a_subscriber_that_never_reads_blocks_nobody_and_grows_nothing(bus: Bus) -> None:
    asleep, awake = bus.events(Sent, maxsize=5), bus.events(Sent, maxsize=5)
    assert not asleep.lagging
    for number in range(300):
        await bus.publish(Sent(sender=str(number), payload="p"))
        assert (await awake.get())[1].sender == str(number)
        assert asleep.queued <= 5
    assert asleep.lagging and not awake.lagging
    assert [(await asleep.get())[1].sender for _ in range(300)] == [str(number) for number in range(300)]
    await bus.publish(Sent(sender="live", payload="p"))
    assert (await asleep.get())[1].sender == "live" and not asleep.lagging


async def test_who_lags_behind_a_closed_journal_still_gets_the_rest(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "run.db") as journal:
        bus = Bus(journal)
        slow = bus.subscribe("a", maxsize=2)
        for number in range(1, 21):
            event, blobs = made(("a", number), value=number)
            bus.post(event, blobs=blobs)
        await journal.sync()
        bus.close()
    assert [message.payload for message in await drain(slow)] == list(range(1, 21))


async def test_closing_ends_those_who_wait(bus: Bus) -> None:
    mine, theirs = bus.events(), bus.events()
    waiting = [asyncio.create_task(drain(subscription)) for subscription in (mine, mine, theirs)]
    await asyncio.sleep(0)
    mine.close()
    assert await waiting[0] == await waiting[1] == []
    await bus.publish(Committed())
    assert mine.queued == 0
    bus.close()
    bus.close()
    assert [seq for seq, _ in await waiting[2]] == [1]
    with pytest.raises(StopAsyncIteration):
        await theirs.get()
    await bus.journal.append(Committed())               # the journal goes on without the bus
    assert [seq for seq, _ in await drain(bus.events(after=1))] == [2]


async def test_a_subscription_may_begin_in_the_future(bus: Bus) -> None:
    later = bus.events(after=2)
    await bus.publish(Committed(), Committed(), Committed())
    bus.close()
    assert [seq for seq, _ in await drain(later)] == [3]


async def test_subscriptions_close_as_context_managers(bus: Bus) -> None:
    with bus.events() as one:
        async with bus.subscribe() as two:
            pass
    for subscription in (one, two):
        with pytest.raises(StopAsyncIteration):
            await subscription.get()
    assert len(bus._subscriptions) == 0


async def test_a_cancelled_get_loses_nothing(bus: Bus) -> None:
    subscription = bus.events(maxsize=1)
    for _ in range(3):
        waiting = asyncio.create_task(subscription.get())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await bus.publish(*(Committed() for _ in range(5)))
    seen = []
    while len(seen) < 5:
        waiting = asyncio.create_task(subscription.get())
        await asyncio.sleep(0)
        waiting.cancel()
        (result,) = await asyncio.gather(waiting, return_exceptions=True)
        if not isinstance(result, asyncio.CancelledError):
            seen.append(result[0])
    assert seen == [1, 2, 3, 4, 5]


async def test_a_payload_that_cannot_be_read_is_told_and_not_skipped(bus: Bus) -> None:
    subscription = bus.subscribe()
    await bus.publish(Committed(versions=(Version(artifact="a", number=1, payload="0" * 64),)))
    for _ in range(2):
        with pytest.raises(JournalError, match="holds no blob"):
            await subscription.get()


async def test_a_queue_holds_at_least_one(bus: Bus) -> None:
    with pytest.raises(UsageError, match="maxsize is 0"):
        bus.events(maxsize=0)


TOPICS = ("a", "b", "c")
SUBSCRIBER = st.fixed_dictionaries({
    "topics": st.lists(st.sampled_from(TOPICS), max_size=2, unique=True),
    "maxsize": st.integers(1, 6),
    "naps": st.lists(st.integers(0, 6), max_size=5),
    "late": st.integers(0, 12),
    "replay": st.booleans(),
    "inbox": st.booleans(),
})
PUBLISHER = st.lists(
    st.tuples(st.lists(st.sampled_from((*TOPICS, "word", "other")), min_size=1, max_size=4), st.booleans(), st.integers(0, 3)),
    max_size=10)


DATA = pack(Data(value=1))
BLOBS = {digest(DATA): DATA}


def event_of(topic: str) -> Event:
    if topic in TOPICS:
        return Committed(versions=(Version(artifact=topic, number=1, payload=digest(DATA)),))
    return Sent(sender="x", to="role" if topic == "word" else "nobody", payload=digest(DATA))


def log(journal: Journal) -> list[tuple[int, str]]:
    return [
        (seq, (event.to or "*") if isinstance(event, Sent) else event.versions[0].artifact)
        for seq, event in journal.events(Committed, Sent)]


async def nap(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def publish(bus: Bus, plan: Any) -> None:
    for topics, waits, naps in plan:
        await nap(naps)
        if waits:
            await bus.publish(*map(event_of, topics), blobs=BLOBS)
        else:
            bus.post(*map(event_of, topics), blobs=BLOBS)


async def listen(bus: Bus, plan: dict[str, Any]) -> None:
    await nap(plan["late"])
    topics, naps = plan["topics"], plan["naps"] or [0]
    begin = 0 if plan["replay"] else bus.journal.last
    options = {"after": 0 if plan["replay"] else None, "maxsize": plan["maxsize"]}
    wanted = {*topics, "role"} if plan["inbox"] else set(topics or TOPICS)
    subscription = bus.inbox("role", topics, **options) if plan["inbox"] else bus.subscribe(*topics, **options)
    heard: list[tuple[int, str]] = []
    async for message in subscription:
        assert subscription.queued <= plan["maxsize"]
        heard.append((message.seq, message.topic))
        await nap(naps[len(heard) % len(naps)])
    assert heard == [(seq, topic) for seq, topic in log(bus.journal) if seq > begin and topic in wanted]


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(PUBLISHER, min_size=1, max_size=4), st.lists(SUBSCRIBER, min_size=1, max_size=5), st.booleans())
def test_each_sees_exactly_its_topics(publishers: list[Any], subscribers: list[dict[str, Any]], on_file: bool) -> None:
    async def main(folder: str) -> None:
        begun = Journal.create(Path(folder) / "run.db") if on_file else Journal.in_memory()
        async with asyncio.timeout(PATIENCE), begun as journal:
            bus = Bus(journal)
            async with asyncio.TaskGroup() as listening:
                for plan in subscribers:
                    listening.create_task(listen(bus, plan))
                async with asyncio.TaskGroup() as publishing:
                    for plan in publishers:
                        publishing.create_task(publish(bus, plan))
                await journal.sync()
                bus.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))


async def test_what_is_handed_over_is_heard_before_it_is_on_disk_by_who_asks_for_that(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), Journal.create(tmp_path / "run.db") as journal:
        bus = Bus(journal)
        early, late = bus.handed(Committed), bus.events(Committed)
        bus.post(Sent(sender="a", payload="p"), Committed())
        assert early.queued == 1 and late.queued == 0 and journal.last == 0
        assert (await early.get())[0] == 2
        assert (await late.get())[0] == 2 and journal.last == 2
        early.close()
        bus.post(Committed())
        assert early.queued == 0
        await bus.sync()
        assert journal.last == 3 and late.queued == 1
        bus.close()
