"""The journal's file: what is acknowledged is there after any death, and what is not is there whole or not at all."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

import pytest

from metaflow_agents.errors import JournalError, RunBusy, UsageError
from metaflow_agents.journal.journal import _PAGE, Journal
from metaflow_agents.journal.lock import RunLock
from metaflow_agents.journal.store import APPLICATION_ID, FORMAT, Batch, Row, Store
from metaflow_agents.schema.event import Event, Sent
from metaflow_agents.schema.model import digest

PHASES = ("before", "between", "after")
TOGETHER = 3


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


def said(count: int, start: int = 0) -> list[Sent]:
    return [Sent(sender=str(number), payload="p") for number in range(start, start + count)]


def senders(path: Path) -> list[str]:
    with Journal.read(path) as journal:
        return [event.sender for _, event in journal.events(Sent)]


class Dying(Store):
    """Kills its process at one write, at one phase of it."""

    dies_at = 0
    phase = ""
    pipe = 0
    writes = 0

    def _die(self, phase: str) -> None:
        if self.writes == self.dies_at and phase == self.phase:
            os.kill(os.getpid(), signal.SIGKILL)

    def _begin_and_insert(self, batches: Sequence[Batch]) -> None:
        os.write(self.pipe, f"group {sum(len(batch.rows) for batch in batches)}\n".encode())
        self._die("before")
        super()._begin_and_insert(batches)

    def _commit(self) -> None:
        self._die("between")
        super()._commit()
        self._die("after")
        self.writes += 1


def write_and_die(path: Path, pipe: int, dies_at: int, phase: str) -> None:
    """In a forked child: appends of `TOGETHER` events each, every acknowledged one told through the pipe."""

    async def main() -> None:
        journal = Journal.create(path)
        journal._store.__class__ = type("Now", (Dying,), {"dies_at": dies_at, "phase": phase, "pipe": pipe})
        async with journal:
            async def one(number: int) -> None:
                data = str(number).encode() * 400
                events = [Sent(sender=str(number), payload=digest(data))] * TOGETHER
                seqs = await journal.append(*events, blobs={digest(data): data})
                os.write(pipe, f"told {number} {seqs[0]}\n".encode())

            for number in range(0, 40, 4):
                await asyncio.gather(*(one(number + extra) for extra in range(4)))

    asyncio.run(main())


def fork_and_kill(path: Path, dies_at: int, phase: str) -> tuple[list[tuple[int, int]], list[int]]:
    """The acknowledged appends (number, first seq), and how many events each transaction held, the fatal one last."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_and_die(path, write, dies_at, phase)
        finally:
            os._exit(3)
    os.close(write)
    with os.fdopen(read) as pipe:
        lines = [line.split() for line in pipe]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    told = [(int(line[1]), int(line[2])) for line in lines if line[0] == "told"]
    return told, [int(line[1]) for line in lines if line[0] == "group"]


def must_hold(path: Path, acknowledged: Iterable[tuple[int, int]]) -> int:
    """Everything acknowledged is there under its number; every append is there whole or not at all, with its blob."""
    with Journal.read(path) as journal:
        events = [event for _, event in journal.events(Sent)]
        assert len(events) % TOGETHER == 0
        for start in range(0, len(events), TOGETHER):
            assert len({event.sender for event in events[start : start + TOGETHER]}) == 1
            assert journal.blob(events[start].payload) == events[start].sender.encode() * 400
        for number, seq in acknowledged:
            assert events[seq - 1].sender == str(number)
    return len(events)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("dies_at", [0, 1, 4, 7])
async def test_sigkill_at_every_phase_of_a_write(tmp_path: Path, dies_at: int, phase: str) -> None:
    path = tmp_path / "run.db"
    acknowledged, groups = fork_and_kill(path, dies_at, phase)
    assert len(groups) == dies_at + 1
    there = must_hold(path, acknowledged)
    # Not the number of those acknowledged: what is durable may not have been told yet when the next write kills.
    assert there == sum(groups if phase == "after" else groups[:-1]) >= TOGETHER * len(acknowledged)
    async with Journal.open(path) as journal:           # the kernel gave the lock back; the run goes on
        assert journal.state.sent == there
        assert await journal.append(*said(1)) == (there + 1,)
    assert os.listdir(tmp_path) == ["run.db"]


@pytest.mark.one_in(4)
async def test_a_torn_wal_leaves_whole_transactions(tmp_path: Path) -> None:
    """What a power cut may leave: a WAL cut anywhere. A prefix of the transactions survives, each whole."""
    fork_and_kill(tmp_path / "run.db", 8, "before")
    wal = (tmp_path / "run.db-wal").read_bytes()
    chance = random.Random(7)
    counts = set()
    for number in range(25):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(tmp_path / "run.db", folder / "run.db")
        (folder / "run.db-wal").write_bytes(wal[: chance.randrange(len(wal) + 1)])
        async with Journal.open(folder / "run.db"):
            pass
        counts.add(must_hold(folder / "run.db", ()))
    assert len(counts) > 3


async def test_disk_full_refuses_the_group_whole_and_a_later_open_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    journal = Journal.create(path)
    async with journal:
        await journal.append(*said(2))
        pages = journal._store._writer.execute("PRAGMA page_count").fetchone()[0]
        journal._store._writer.execute(f"PRAGMA max_page_count={pages + 2}")
        big = os.urandom(40_000)
        results = await asyncio.gather(
            *(journal.append(*said(1, 10 + n), blobs={digest(big): big} if n == 3 else {}) for n in range(6)),
            return_exceptions=True,
        )
        refused = [result for result in results if isinstance(result, JournalError)]
        assert refused and isinstance(results[3], JournalError)
        assert "free space on" in str(refused[0]) and "`sop resume run`" in str(refused[0])
        kept = len(results) - len(refused)
        with pytest.raises(JournalError, match="free space"):
            await journal.append(*said(1))
        with pytest.raises(JournalError, match="free space"):
            journal.post(*said(1))
        with pytest.raises(JournalError, match="free space"):
            await journal.sync()
        assert journal.last == 2 + kept                 # what was not written does not count
    assert os.listdir(tmp_path) == ["run.db"]
    async with Journal.open(path) as journal:
        assert journal.state.sent == journal.last == 2 + kept
        assert await journal.append(*said(1), blobs={digest(big): big}) == (3 + kept,)
        assert journal.blob(digest(big)) == big


async def test_a_failed_post_is_told_at_close_and_only_once(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "run.db")
    await journal.__aenter__()
    journal._store._writer.execute("PRAGMA query_only=1")
    journal.post(*said(1))
    with pytest.raises(JournalError, match="read-only"):
        await journal.close()
    await journal.close()
    assert senders(tmp_path / "run.db") == []


async def test_closing_leaves_one_file_and_reading_leaves_none_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Journal.create(path) as journal:
        await journal.append(*said(3))
        assert {"run.db-wal", "run.db.lock"} <= set(os.listdir(tmp_path))
        with Journal.read(path) as other:
            assert other.last == 3 and other.state.sent == 3
            await journal.append(*said(2))
            assert other.last == 5                      # it sees what is written meanwhile
            with pytest.raises(JournalError, match="reading only"):
                await other.append(*said(1))
    assert os.listdir(tmp_path) == ["run.db"]
    assert senders(path) == ["0", "1", "2", "0", "1"]
    assert os.listdir(tmp_path) == ["run.db"]
    assert len(list(journal.events())) == 5             # who still lags behind a closed journal reads the rest


async def test_names_that_exist_and_that_do_not(tmp_path: Path) -> None:
    async with Journal.create(tmp_path / "letters.db") as journal:
        await journal.append(*said(1))
    with pytest.raises(UsageError, match=r"exists already.*sop resume letters"):
        Journal.create(tmp_path / "letters.db")
    for way in (Journal.open, Journal.read):
        with pytest.raises(UsageError, match=r"no run `leters`.*did you mean `letters`"):
            way(tmp_path / "leters.db")
    assert os.listdir(tmp_path) == ["letters.db"]       # no lock file, no half-made run


async def test_a_run_that_died_before_its_first_event_may_be_created_again(tmp_path: Path) -> None:
    (tmp_path / "run.db.new").write_bytes(b"half of a file")
    await Journal.create(tmp_path / "run.db").close()
    async with Journal.create(tmp_path / "run.db") as journal:
        assert await journal.append(*said(1)) == (1,)


def test_files_that_are_no_journal_are_told_apart(tmp_path: Path) -> None:
    garbage, other, newer = tmp_path / "garbage.db", tmp_path / "other.db", tmp_path / "newer.db"
    garbage.write_bytes(b"this is a text and no database at all, " * 100)
    for path, marker, version in ((other, 0, 0), (newer, APPLICATION_ID, FORMAT + 1)):
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE events(x)")
        connection.execute(f"PRAGMA application_id={marker}")
        connection.execute(f"PRAGMA user_version={version}")
        connection.close()
    for path, message in ((garbage, "no journal"), (other, "another program"), (newer, "newer version.*pip install -U")):
        for way in (Journal.open, Journal.read, Journal.create):
            with pytest.raises(JournalError, match=message):
                way(path)
    assert not list(tmp_path.glob("*.lock"))


async def test_damage_is_told_where_it_is_met(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    data, packed = b"x" * 300, b"y" * 9_000
    async with Journal.create(path) as journal:
        await journal.append(*said(4), blobs={digest(data): data, digest(packed): packed})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE blobs SET data = CAST('z' AS BLOB)")
    connection.execute("UPDATE events SET data = '{\"sender\": 1}' WHERE seq = 3")
    connection.commit()
    with Journal.read(path) as reading:
        for broken in (data, packed):
            with pytest.raises(JournalError, match=f"damaged at blob {digest(broken)}"):
                reading.blob(digest(broken))
        with pytest.raises(JournalError, match="holds no blob"):
            reading.blob("0" * 64)
        with pytest.raises(JournalError, match="event 3"):
            list(reading.events())
    connection.execute("DELETE FROM events WHERE seq = 3")
    connection.commit()
    connection.close()
    with pytest.raises(JournalError, match="event 3 is missing"):
        Journal.open(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    with pytest.raises(JournalError, match="damaged"):
        Journal.open(path)


async def test_blobs_are_stored_once_and_packed_where_it_pays(tmp_path: Path) -> None:
    small, text, noise = b"s" * 512, b"text " * 1000, os.urandom(5000)
    blobs = {digest(data): data for data in (small, text, noise)}
    async with Journal.create(tmp_path / "run.db") as journal:
        for _ in range(3):
            await journal.append(*said(1), blobs=blobs)
    connection = sqlite3.connect(tmp_path / "run.db")
    rows = {key: (packed, size) for key, packed, size in connection.execute("SELECT digest, packed, length(data) FROM blobs")}
    connection.close()
    assert rows[digest(small)] == (0, 512) and rows[digest(noise)] == (0, 5000)
    assert rows[digest(text)][0] == 1 and rows[digest(text)][1] < 100
    with Journal.read(tmp_path / "run.db") as journal:
        assert [journal.blob(key) for key in blobs] == list(blobs.values())


async def test_a_copy_ends_where_it_was_told(tmp_path: Path) -> None:
    source, target = tmp_path / "run.db", tmp_path / "fork.db"
    async with Journal.create(source) as journal:
        await journal.append(*said(5), blobs={digest(b"p"): b"p"})
        async with Journal.copy(source, target, until=3) as fork:          # while the source is being written
            assert fork.state.sent == 3 and fork.blob(digest(b"p")) == b"p"
            assert await fork.append(*said(1, 9)) == (4,)
        with pytest.raises(UsageError, match="exists already"):
            Journal.copy(source, target, until=3)
    assert senders(target) == ["0", "1", "2", "9"] and senders(source) == ["0", "1", "2", "3", "4"]
    assert sorted(os.listdir(tmp_path)) == ["fork.db", "run.db"]


HOLDER = """
import os, sys, time
from pathlib import Path
from metaflow_agents.journal.journal import Journal
journal = Journal.open(Path(sys.argv[1]))
child = os.fork() if "fork" in sys.argv else 1
if child == 0:
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""


def hold(path: Path, forks: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(path), "fork" if forks else ""]
    found_as_here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=found_as_here)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("forks", [False, True])
async def test_a_run_open_in_one_process_is_refused_to_a_second_until_that_dies(tmp_path: Path, forks: bool) -> None:
    """Also where the holder has forked: its child neither holds the run nor keeps it from others."""
    path = tmp_path / "run.db"
    await Journal.create(path).close()
    with hold(path, forks) as holder:
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(RunBusy, match=f"run `run` is open in process {holder.pid}"):
                Journal.open(path)
            with Journal.read(path) as reading:
                assert reading.last == 0
            holder.kill()
            holder.wait()
            if forks:
                os.kill(child, 0)                       # alive
            async with Journal.open(path) as journal:
                with pytest.raises(RunBusy, match=f"process {os.getpid()}"):
                    Journal.open(path)                  # nor twice in one process
                await journal.append(*said(1))
        finally:
            holder.kill()
            if forks:
                os.kill(child, signal.SIGKILL)
    async with Journal.open(path) as journal:
        assert journal.state.sent == 1


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.flock
    removed: list[Path] = []

    def slow(fd: int, how: int) -> None:
        if not removed:
            removed.append(tmp_path / "run.db.lock")
            removed[0].unlink()                         # the last holder lets go between our `open` and our lock
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    lock = RunLock(tmp_path / "run.db")
    with pytest.raises(RunBusy):
        RunLock(tmp_path / "run.db")
    lock.release()
    RunLock(tmp_path / "run.db").release()
    assert os.listdir(tmp_path) == []


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def test_a_forked_child_cannot_append_to_its_parents_run(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "run.db")       # no writer thread yet: forking is safe
    child = os.fork()
    if child == 0:
        try:
            journal.post(*said(1))
        except JournalError as error:
            os._exit(7 if "before a fork" in str(error) else 1)
        os._exit(0)
    assert exit_code(child) == 7
    with pytest.raises(RunBusy):
        Journal.open(tmp_path / "run.db")               # the child's end did not release it
    async with journal:
        await journal.append(*said(1))
    assert senders(tmp_path / "run.db") == ["0"]


@pytest.mark.one_in(8, always=False)
async def test_many_events_are_read_by_pages_and_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes opening a long run as long as the run, and no longer; how long that is is a benchmark's matter."""
    path = tmp_path / "run.db"
    async with Journal.create(path) as journal:
        for start in range(0, 25_000, 5_000):
            journal.post(*said(5_000, start))
        await journal.sync()
    pages: list[int] = []
    inside = Store.page

    def counted(store: Store, kinds: Sequence[str], after: int, until: int, limit: int) -> list[Row]:
        rows = inside(store, kinds, after, until, limit)
        pages.append(len(rows))
        return rows

    monkeypatch.setattr(Store, "page", counted)
    journal = Journal.open(path)
    await journal.close()
    assert journal.state.sent == 25_000
    assert sum(pages) == 25_000 and max(pages) == _PAGE and len(pages) == ceil(25_000 / _PAGE)
