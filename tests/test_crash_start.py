"""Killed between the start of the process and the end of the run: every run can be shown, and resumed or begun under its name."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from killing import WORKS
from security.path_scenes import cli

from metaflow_agents.api.run import fork, resume, run_sync
from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.making import make
from metaflow_agents.journal.private import make_private
from metaflow_agents.journal.store import TABLES, Batch

HARNESS = Path(__file__).with_name("crash_start.py")
SOP = """
sop: letters
inputs: {topic: string}
steps:
  one: {value: "topic ~ '!'", needs: [topic], makes: note}
artifacts: {note: {file: note.md}}
outputs: [note]
"""


def kills(phase: str, count: int, seed: int, *way: str) -> None:
    done = subprocess.run([sys.executable, str(HARNESS), phase, str(count), str(seed), *way], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    sys.stdout.write(done.stdout[-5000:])                           # the seed, too
    if "Operation not permitted" in done.stderr:
        pytest.skip("processes can't be traced here")
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]


@pytest.mark.one_in(32, always=False)
@pytest.mark.skipif(not WORKS, reason="traces by ptrace of Linux on x86-64 or ARM")
@pytest.mark.parametrize(("phase", "count"), [("start", 10), ("whole", 5)])
def test_killed_at_random_changes_of_files(phase: str, count: int) -> None:
    kills(phase, count, random.SystemRandom().randrange(10**6))


@pytest.mark.slow
@pytest.mark.skipif(not WORKS, reason="traces by ptrace of Linux on x86-64 or ARM")
@pytest.mark.parametrize(("phase", "count", "way"), [("start", 1000, "fork"), ("whole", 1000, "fork"), ("start", 30, "real")])
def test_a_thousand_kills(phase: str, count: int, way: str) -> None:
    kills(phase, count, random.SystemRandom().randrange(10**6), way)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letters.yaml").write_text(SOP)
    (tmp_path / "workspace" / ".journals").mkdir(parents=True)
    yield tmp_path / "workspace" / ".journals"


def looks(name: str) -> list[tuple[int, str]]:
    return [cli(*line.split()) for line in (f"show {name}", f"log {name}", f"log {name} --audit", "runs")]


def hot(path: Path) -> None:
    """A process that is killed while it changes a file that is not in WAL mode leaves a hot rollback journal."""
    killed = ("import os, sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
              "db.execute('PRAGMA journal_mode=DELETE'); db.execute('PRAGMA cache_size=1'); db.execute('BEGIN IMMEDIATE')\n"
              "db.executemany('INSERT INTO blobs VALUES (?, 0, ?)', ((str(n), os.urandom(4000)) for n in range(200)))\n"
              "os.kill(os.getpid(), 9)")
    subprocess.run([sys.executable, "-c", killed, str(path)], check=False)
    assert path.with_name(f"{path.name}-journal").stat().st_size > 1000


def test_a_hot_rollback_journal_is_rolled_back_by_who_reads(home: Path) -> None:
    assert run_sync("letters.yaml", topic="x", name="one", until="one").ok
    hot(home / "one.db")
    assert [status for status, _ in looks("one")] == [0, 0, 0, 0]
    assert not (home / "one.db-journal").exists()
    with sqlite3.connect(home / "one.db") as db:
        assert db.execute("SELECT count(*) FROM blobs WHERE length(digest) < 10").fetchone() == (0,)
    db.close()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("left", ["-shm", "-wal"])
def test_a_log_without_its_index_and_an_index_without_its_log(home: Path, left: str) -> None:
    killed = ("import asyncio, os\nfrom metaflow_agents.runtime.output_sync import Folder\nfrom metaflow_agents import run\n"
              "async def rest(self): os.kill(os.getpid(), 9)\nFolder.rest = rest\n"
              "asyncio.run(run('letters.yaml', topic='x', name='one'))")
    subprocess.run([sys.executable, "-c", killed], check=False)
    if left == "-wal":                                              # all of it is in the file by then
        with sqlite3.connect(home / "one.db") as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        (home / "one.db-shm").write_bytes(b"\0" * 32768)
    else:
        (home / "one.db-shm").unlink()
    assert [status for status, _ in looks("one")] == [0, 0, 0, 0]
    assert asyncio.run(resume("one"))["note"] == "x!"


def test_an_empty_file_is_told_and_its_name_is_free(home: Path) -> None:
    (home / "one.db").touch()
    (home / "one.db-wal").write_bytes(b"left")
    (home / "one.db.new").write_bytes(b"left")
    (home / "one.db.new-wal").write_bytes(b"left")
    for status, said in looks("one")[:3]:
        assert (status, "is empty" in said, "sop run FILE --name one" in said) == (1, True, True), said
    with pytest.raises(JournalError, match="is empty"):
        asyncio.run(resume("one"))
    assert cli("runs")[0] == 0
    assert run_sync("letters.yaml", topic="x", name="one")["note"] == "x!"
    assert [path.name for path in home.iterdir()] == ["one.db"]


def test_the_log_of_a_journal_that_lost_its_file_is_not_replayed_onto_the_next(home: Path) -> None:
    """SQLite takes what stands under the log's name for the log of the file beside it, and its sums are right."""
    left = home / "one.db"
    with sqlite3.connect(home / "other.db", isolation_level=None) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE strange (what TEXT)")
        left.with_name("one.db-wal").write_bytes((home / "other.db-wal").read_bytes())
    left.touch()
    assert run_sync("letters.yaml", topic="x", name="one")["note"] == "x!"
    with sqlite3.connect(left) as db:
        assert {name for name, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} >= {"events", "blobs"}
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.one_in(4)
def test_a_journal_without_events_is_told_and_its_name_is_free(home: Path) -> None:
    """What older versions left, where they were killed before their first event."""
    make(home / "one.db", Batch([], {}))
    for status, said in (looks("one")[0], looks("one")[1], cli("resume", "one")):
        assert status == 2 and "was killed before it began" in said and "`sop run FILE --name one`" in said, said
    assert run_sync("letters.yaml", topic="x", name="one")["note"] == "x!"


@pytest.mark.one_in(8, always=False)
def test_what_holds_but_its_beginning_is_resumed_or_begun_again_and_more_is_not(home: Path) -> None:
    killed = ("import asyncio, os\nfrom metaflow_agents.journal.journal import Journal\nfrom metaflow_agents import run\n"
              "Journal.__aenter__ = lambda self: os.kill(os.getpid(), 9)\n"
              "asyncio.run(run('letters.yaml', topic='x', name=NAME))")
    for name in ("one", "two"):
        subprocess.run([sys.executable, "-c", killed.replace("NAME", repr(name))], check=False)
        assert [status for status, _ in looks(name)] == [0, 0, 0, 0]
    assert asyncio.run(resume("one"))["note"] == "x!"
    assert run_sync("letters.yaml", topic="y", name="two")["note"] == "y!"
    for name in ("one", "two"):
        with pytest.raises(UsageError, match="exists already"):
            run_sync("letters.yaml", topic="z", name=name)
    branch = fork("two", at="one@1")                                # holds no more than a beginning, and that on purpose
    with pytest.raises(UsageError, match="exists already"):
        run_sync("letters.yaml", topic="z", name=branch)
    assert asyncio.run(resume(branch))["note"] == "y!"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_a_private_file_is_so_from_its_first_instant(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_private(tmp_path / "one")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600


@pytest.mark.one_in(6)
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_nobody_else_may_read_what_was_asked_and_answered(home: Path, umask: int) -> None:
    (home.parent.parent / "talk.yaml").write_text(
        "sop: talk\nroles: {a: {profile: you talk, memory: {recall: {top: 1}}}}\nartifacts: {note: {}}\n"
        "steps: {one: {role: a, makes: note, task: Say it.}}\n")
    (home.parent.parent / "desk.py").write_text(
        "import stat\nfrom pathlib import Path\ndef answer(request):\n"
        "    modes = [oct(path.stat().st_mode) + path.name for path in Path('workspace/.journals').iterdir()]\n"
        "    Path('modes.txt').write_text(' '.join(modes))\n"
        "    return '{\"importance\": 5}' if '/imp' in request.key else 'said'\n")
    home.rmdir()
    begin = (f"import os, sys\nos.umask({umask})\nfrom metaflow_agents.cli import command\n"
             "sys.exit(command(['run', 'talk.yaml', '--name', 'r', '--model', 'python:desk.py:answer']))")
    done = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    while_it_ran = Path("modes.txt").read_text().split()
    assert {"r.db", "r.db-wal", "r.db-shm", "r.db.lock"} <= {entry[8:] for entry in while_it_ran}, while_it_ran
    assert {entry[:8] for entry in while_it_ran} <= {"0o100600", "0o100400"}, while_it_ran
    for path in (home / "r.db", home.parent / ".memory" / "project.db"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.parent.stat().st_mode & 0o077


def test_what_an_older_version_left_open_is_told_and_closed_by_a_resume(home: Path) -> None:
    assert run_sync("letters.yaml", topic="x", name="one", until="one").ok
    (home / "one.db").chmod(0o644)
    said = cli("doctor")[1]
    assert "can be read by others" in said and "chmod -R go=" in said
    assert cli("show", "one")[0] == 0
    assert stat.S_IMODE((home / "one.db").stat().st_mode) == 0o644, "who only reads changes nothing"
    Journal.open(home / "one.db").__exit__()
    assert stat.S_IMODE((home / "one.db").stat().st_mode) == 0o600
    assert "can be read by others" not in cli("doctor")[1]


def test_tables_of_a_journal_are_as_they_were() -> None:
    """Format 1 stays readable by the versions that know it."""
    assert [table.partition("(")[0] for table in TABLES] == ["CREATE TABLE events", "CREATE TABLE blobs"]
