"""Blobs as differences from earlier ones: what is stored grows with what is new, and every byte comes back."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from scripted import Scripted, events
from tiers import examples

from benchmarks.conversations import SAID, talk
from benchmarks.large_journal import text_of
from metaflow_agents import fork, resume, run
from metaflow_agents.cli.entry_point import command
from metaflow_agents.errors import JournalError
from metaflow_agents.journal.delta import BEGINNING, Damaged, assembled
from metaflow_agents.journal.delta_window import SMALLEST, Window
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.store import FORMAT, Batch, Store
from metaflow_agents.schema.event import Reserved
from metaflow_agents.schema.model import canonical, digest

FORMAT_1 = Path(__file__).parent / "data/format_1"       # a journal of version 0.1.0 at aaf59a9, and its recording; see below


class Kept:
    """What a journal would hold: texts, or differences from them."""

    def __init__(self, held: int = 32 << 20) -> None:
        self.window = Window(held)
        self.rows: dict[str, tuple[bool, bytes]] = {}

    def add(self, data: bytes) -> int:
        """How many bytes are stored of it."""
        name = digest(data)[:BEGINNING]
        if name in self.rows:
            return 0
        difference = self.window.add(digest(data), data)
        self.rows[name] = (False, data) if difference is None else (True, difference)
        assert self.text(name) == data
        return len(self.rows[name][1])

    def fetched(self, data: bytes) -> int:
        """How many rows are read to put it together."""
        rows: list[str] = []

        def fetch(name: str) -> tuple[bool, bytes]:
            rows.append(name)
            return self.rows[name]

        assembled(fetch(digest(data)[:BEGINNING])[1], fetch)
        return len(rows)

    def text(self, name: str) -> bytes:
        differs, data = self.rows[name]
        return assembled(data, self.rows.__getitem__) if differs else data


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def asked(key: str, system: str, messages: Sequence[dict[str, str]]) -> bytes:
    return canonical({"key": key, "messages": [message("system", system), *messages], "model": "m", "schema": None})


@pytest.mark.one_in(8, always=False)
def test_a_journal_grows_with_what_is_said_and_every_request_comes_back(tmp_path: Path) -> None:
    sent: dict[str, bytes] = {}
    short, long = talk(tmp_path / "40", 40), talk(tmp_path / "80", 80, sent)
    assert short < 3 and long < 3
    assert long / short < 1.15                                          # for each byte that is said; by the square it were 2
    with Journal.read(journal_path(tmp_path / "80", "talk")) as journal:
        requests = {event.key: journal.blob(event.request) for _, event in journal.events(Reserved)}
    assert requests == sent and max(map(len, sent.values())) > 150 * SAID


def stored(requests: Sequence[bytes]) -> tuple[int, int]:
    """How many bytes are stored of the first half of these requests, and of the second."""
    kept = Kept()
    sizes = [kept.add(request) for request in requests]
    return sum(sizes[:len(sizes) // 2]), sum(sizes[len(sizes) // 2:])


SYSTEM = "You work with others by a written procedure. " * 10
TEXTS = [text_of(str(number), 1200) for number in range(120)]


def test_a_prompt_that_is_one_long_text_is_stored_by_what_is_new_in_it() -> None:
    def request(number: int) -> bytes:
        so_far = "\n\n".join(f'Turn {place}: "{text}"' for place, text in enumerate(TEXTS[:number]))
        return asked(f"say@{number}", SYSTEM, [message("user", f"All that was said:\n\n{so_far}\n\nGo on.")])
    first, second = stored([request(number) for number in range(120)])
    assert second < 1.1 * first and first + second < 1.4 * 120 * 1200


@pytest.mark.parametrize("last", [1, 10, 40])
def test_a_window_that_slides_is_stored_by_what_is_new_in_it(last: int) -> None:
    def request(number: int) -> bytes:
        return asked(f"say@{number}", SYSTEM, [message("user", text) for text in TEXTS[max(number - last, 0):number]])
    first, second = stored([request(number) for number in range(120)])
    assert second < 1.3 * first and first + second < 1.4 * 120 * 1200


def test_many_who_are_asked_in_the_same_words_go_on_each_from_its_own_last_request() -> None:
    """What one of them said itself is an answer in its own prompts, and a message of somebody else in all others."""
    def request(number: int) -> bytes:
        return asked(f"say@{number}", SYSTEM, [message("assistant" if place % 12 == number % 12 else "user", text)
                                               for place, text in enumerate(TEXTS[:number])])
    first, second = stored([request(number) for number in range(120)])
    assert second < 2 * first and first + second < 2 * 120 * 1200


def test_the_same_text_in_a_reply_an_artifact_and_a_memory_is_stored_once() -> None:
    text = "\n".join(f'Line {number}: "{text_of(str(number), 60)}" — ünï' for number in range(60))
    kept = Kept()
    whole = kept.add(canonical({"text": text, "tokens_in": 3}))
    assert whole > len(text.encode())
    assert kept.add(text.encode()) < 60
    assert kept.add(canonical({"kind": "data", "value": text})) < 100
    assert kept.add(canonical({"messages": [message("user", f"# Material\n\n{text}\n\nGo on.")]})) < 150
    assert len(kept.window) == 1                                        # the others hold nothing new


@pytest.mark.one_in(4)
def test_any_texts_come_back_as_they_were() -> None:
    for _ in range(examples(400)):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        kept = Kept(rng.choice([2_000, 20_000, 1 << 20]))
        pool = [bytes(rng.choice(b'abegw 15\n"\\') for _ in range(rng.randrange(20, 3000))) for _ in range(4)]
        pool += [("ü“日本\t" * rng.randrange(1, 300)).encode(), rng.randbytes(800), b"{" + rng.randbytes(900)]
        names = []
        for _ in range(40):
            data = b""
            for _ in range(rng.randrange(1, 6)):
                piece = rng.choice(pool)
                one, two = sorted((rng.randrange(len(piece) + 1), rng.randrange(len(piece) + 1)))
                data += piece[one:two] if rng.random() < 0.5 else piece
            data = data if rng.random() < 0.7 else b"{" + data
            pool[rng.randrange(len(pool))] = data
            kept.add(data)
            names.append(data)
        assert all(kept.text(digest(data)[:BEGINNING]) == data for data in names), f"seed {seed}"
        assert kept.window.held <= 1 << 20 and len(kept.rows) > 20, f"seed {seed}"


def test_a_window_is_bounded() -> None:
    window = Window(50_000)
    for number in range(400):
        data = text_of(str(number), 1000).encode()
        window.add(digest(data), data)
    assert window.held <= 50_000 and len(window) == 50
    assert window.add("0" * 64, b"x" * 30_000) is None and len(window) == 50        # one text is never most of it


@pytest.mark.one_in(4)
async def test_a_run_that_ends_after_each_round_and_goes_on_is_stored_by_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    Journal.create(path)._let_go()
    requests = [asked(f"say@{number}", SYSTEM, [message("user", text) for text in TEXTS[:number]]) for number in range(60)]
    for data in requests:
        async with Journal.open(path) as journal:
            await journal.append(blobs={digest(data): data})
    assert path.stat().st_size < 2.5 * 60 * 1200
    with Journal.read(path) as journal:
        assert [journal.blob(digest(data)) for data in requests] == requests


def test_nothing_is_copied_from_what_a_failed_write_did_not_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.db"
    Journal.create(path)._let_go()
    store = Store(path, writable=True)
    text = text_of("a", 4000)
    lost, later = canonical({"a": text}), canonical({"b": text})
    with monkeypatch.context() as patch:
        patch.setattr(store, "_commit", lambda: (_ for _ in ()).throw(JournalError("no space")))
        with pytest.raises(JournalError, match="no space"):
            store.write([Batch((), {digest(lost): lost})])
    store.write([Batch((), {digest(later): later})])
    assert store.blob(digest(later)) == later
    store.close()


def number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def difference(size: int, sources: Sequence[bytes], pieces: Sequence[Sequence[int]], rest: bytes = b"", *, flags: int = 0,
               packed: int = 0) -> bytes:
    return b"".join((number(flags), number(size), number(len(sources)), *sources, number(len(pieces)),
                     *(number(value) for piece in pieces for value in piece), number(packed), rest))


A, B, TEXT = b"a" * 16, b"b" * 16, b"t" * 16
HOSTILE = {
    "nothing": (b"", "breaks off"),
    "it ends in its sources": (difference(5, [A], [])[:9], "breaks off"),
    "a number without end": (b"\xff" * 300, "beyond all bounds"),
    "unknown flags": (difference(3, [], [(0, 3)], b"abc", flags=2), "flags 2"),
    "gigabytes": (difference(1 << 33, [], []), "makes 8,589,934,592 bytes"),
    "other bytes than it says": (difference(9, [], [(0, 3)], b"abc"), "makes 3 bytes, not 9"),
    "more of its own than it uses": (difference(3, [], [(0, 3)], b"abcdef"), "with 6 of its own"),
    "a source that it does not name": (difference(3, [A], [(2, 0, 3)]), "source 2 of 1"),
    "a copy of nothing": (difference(0, [A], [(1, 0, 0)]), "copies 0 bytes"),
    "beyond the end of a text": (difference(300, [TEXT], [(1, 900, 300)]), "beyond the end"),
    "beyond the end of a difference": (difference(300, [B], [(1, 900, 300)]), "can't be copied"),
    "from itself": (difference(300, [A], [(1, 0, 300)]), "more than 262,144 pieces"),
    "a text that is no JSON text": (difference(3, [], [(0, 3)], b'a"c', flags=1), "no text as JSON has it"),
    "half a character": (difference(1, [], [(0, 1)], b"\xc3", flags=1), "no text as JSON has it"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_difference_that_is_none_of_ours_is_refused(name: str) -> None:
    written, why = HOSTILE[name]
    rows = {A.hex(): (True, written), B.hex(): (True, difference(300, [TEXT], [(1, 0, 300)])), TEXT.hex(): (False, b"x" * 1000)}
    with pytest.raises(Damaged, match=why):
        assembled(written, rows.__getitem__)


@pytest.mark.one_in(4)
def test_packed_rests_are_unpacked_within_bounds() -> None:
    with pytest.raises(zlib.error):
        assembled(difference(3, [], [(0, 3)], b"no zlib", packed=1), {}.__getitem__)
    bomb = zlib.compress(bytes(300 << 20), 1)
    with pytest.raises(zlib.error, match="larger than 256 MB"):
        assembled(difference(3, [], [(0, 3)], bomb, packed=1), {}.__getitem__)


async def test_a_difference_whose_source_is_missing_or_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    text = text_of("a", 4000)
    first, second = canonical({"a": text}), canonical({"b": text})
    async with Journal.create(path) as journal:
        await journal.append(blobs={digest(first): first, digest(second): second})
    connection = sqlite3.connect(path)
    assert dict(connection.execute("SELECT digest, packed FROM blobs")) == {digest(first): 1, digest(second): 2}
    connection.execute("UPDATE blobs SET data = ?, packed = 0 WHERE digest = ?", (first[:-9] + b"123456789", digest(first)))
    connection.commit()
    with Journal.read(path) as reading, pytest.raises(JournalError, match=f"damaged at blob {digest(second)}: its bytes"):
        reading.blob(digest(second))
    connection.execute("DELETE FROM blobs WHERE digest = ?", (digest(first),))
    connection.commit()
    connection.close()
    with Journal.read(path) as reading, pytest.raises(JournalError, match=f"copies from the blob {digest(first)[:BEGINNING]}"):
        reading.blob(digest(second))


# tests/data/format_1: two roles that watch what the other one makes, 6 rounds, asked of a `python:` model that gave `answer(n)`
# and raised RuntimeError at its eighth call. Written by version 0.1.0 at aaf59a9, before there were differences.

def answer(number: int) -> str:
    return "".join(f'Line {line} of answer {number}: "{number * 7919 % (line + 97)}" — ünï.\n' for line in range(30)) \
        + f"Answer {number} ends."


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = journal_path(tmp_path, "talk")
    path.parent.mkdir(parents=True)
    shutil.copyfile(FORMAT_1 / "talk.db", path)
    return path


def header(path: Path) -> int:
    connection = sqlite3.connect(path)
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found


def test_a_journal_of_format_1_is_read_shown_and_exported_as_before(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = old.read_bytes()
    assert header(old) == 1
    workspace = str(old.parent.parent)
    with Journal.read(old) as journal:
        requests = [journal.blob(event.request) for _, event in journal.events(Reserved)]
    recorded = [json.loads(line) for line in (FORMAT_1 / "talk.jsonl").read_text().splitlines()[1:]]
    assert [json.loads(request)["messages"] for request in requests] == [call["messages"] for call in recorded]
    assert command(["log", "talk", "--full", "--workspace", workspace]) == 0
    said = capsys.readouterr().out
    assert "the model is gone" in said and said.count("Line 7 of answer 1:") > 5
    assert command(["show", "talk", "heard@3", "--raw", "--workspace", workspace]) == 0
    assert capsys.readouterr().out.rstrip("\n") == answer(6)
    recording = old.parent / "again.jsonl"
    assert command(["export", "talk", "--recording", str(recording), "--answered-by", "a script", "--workspace", workspace]) == 0
    assert recording.read_bytes() == (FORMAT_1 / "talk.jsonl").read_bytes()
    assert old.read_bytes() == before


async def test_a_journal_of_format_1_is_gone_on_with_forked_and_replayed(old: Path, tmp_path: Path) -> None:
    calls = iter(range(9, 99))
    branch = fork("talk", at="hear@3", new_name="branch", workspace=tmp_path)
    assert header(journal_path(tmp_path, branch)) == 1
    model = Scripted(say=lambda _: answer(next(calls)), hear=lambda _: answer(next(calls)))
    result = await resume("talk", workspace=tmp_path, model=model)
    assert result.ok and model.keys[0] == "hear@4~1/turn.0" and len(model.keys) == 5
    assert [message["content"] for message in model.requests[0].messages if message["role"] == "assistant"] == [
        answer(2), answer(4), answer(6)]
    assert header(old) == FORMAT
    connection = sqlite3.connect(old)
    assert {packed for packed, in connection.execute("SELECT packed FROM blobs")} == {0, 1, 2}
    connection.close()
    with Journal.read(old) as journal:
        assert [json.loads(journal.blob(event.request))["key"] for _, event in journal.events(Reserved)][8:] == model.keys
    other = Scripted(say="said", hear="heard")
    assert (await resume(branch, workspace=tmp_path, model=other)).ok and other.keys[0] == "hear@3~0/turn.0"
    replayed = await run(FORMAT_1 / "talk.yaml", model=f"replay:{FORMAT_1 / 'talk.jsonl'}", workspace=tmp_path, name="replayed",
                         idea="tea")
    assert len(events(tmp_path, "replayed", Reserved)) == 8 and "the model is gone" in (replayed.reason or "")


def test_a_journal_without_differences_stays_as_it_was(old: Path) -> None:
    store = Store(old, writable=True)
    noise = os.urandom(SMALLEST * 4)
    store.write([Batch((), {digest(noise): noise})])
    assert store.blob(digest(noise)) == noise
    store.close()
    assert header(old) == 1


@pytest.mark.one_in(4)
def test_many_rounds_are_put_together_in_steps_that_grow_with_them() -> None:
    """Counted in what is fetched for the last request: each round adds some, whatever was said before."""
    kept = Kept()
    counts = []
    for number in range(240):
        data = asked(f"say@{number}", SYSTEM, [message("user", text_of(str(place), 300)) for place in range(number)])
        kept.add(data)
        if number in (119, 239):
            counts.append(kept.fetched(data))
    assert counts[1] < 2.5 * counts[0]


async def test_a_journal_is_read_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    requests = [asked(f"say@{number}", SYSTEM, [message("user", text) for text in TEXTS[:number]]) for number in range(40)]
    async with Journal.create(path) as journal:
        with Journal.read(path) as reading:
            for data in requests:
                await journal.append(blobs={digest(data): data})
                assert await asyncio.to_thread(reading.blob, digest(data)) == data
