"""Workers: what they may take, what becomes of those that take more, and that none is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents.errors import ForeignRefused, RunError
from metaflow_agents.workers.jobs import JOBS, MIB, WorkerJob
from metaflow_agents.workers.pool import Pool, parsed
from tests.patience import until

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the system enforces no such limit")
ROOT = Path(__file__).parent.parent
DO = WorkerJob("tests", "tests.worker_jobs", "job", seconds=1, memory=256 * MIB, output=MIB // 2)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.close()


async def test_a_worker_stays_warm_and_its_arguments_reach_it(pool: Pool) -> None:
    assert await pool.ask(DO, b"echo", exit_code=1, file="r.xml") == {"exit_code": 1, "file": "r.xml"}
    pids = {await pool.ask(DO, b"pid") for _ in range(5)}
    assert len(pids) == 1 and os.getpid() not in pids and pool.idle == 1


@pytest.mark.parametrize("what, told", [
    ("spin", "took more than 1 s of processor time"), ("spin in C", "took more than 1 s of processor time"),
    pytest.param("eat", "took more than 256 MiB of memory", marks=LINUX),
    pytest.param("eat slowly", "took more than 256 MiB of memory", marks=LINUX),
    ("raise", r"can't be parsed \(ValueError: no such thing\)"), ("recurse", r"can't be parsed \(RecursionError"),
    ("crash", r"made its parser crash \(signal 6"), ("exit", r"made its parser end \(exit status 3\)"),
    ("large", "gives more than 0 MiB of result"),
])
async def test_what_goes_wrong_in_a_worker_is_told_and_the_next_one_is_fresh(pool: Pool, what: str, told: str) -> None:
    before = await pool.ask(DO, b"pid")
    with pytest.raises(ForeignRefused, match=told):
        await pool.ask(DO, what.encode())
    after = await pool.ask(DO, b"pid")
    assert after != before


async def test_what_no_text_can_hold_is_replaced_and_what_is_nested_comes_whole(pool: Pool) -> None:
    assert await pool.ask(DO, b"surrogate") == "a?b"
    assert await pool.ask(DO, b"deep")


@LINUX
async def test_a_worker_has_nothing_of_its_parents(pool: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        seen = await pool.ask(DO, b"look", place=str(tmp_path / "wrote"))
    finally:
        os.close(ours)
        os.close(theirs)
    assert "planted" not in json.dumps(seen) and not set(seen["environment"]) - {"LC_CTYPE", "PWD", "OPENBLAS_NUM_THREADS"}
    assert seen["descriptors"] == [0, 1, 2] and seen["folder"] == "/"
    assert seen["modules"] == [] and seen["path"] == []
    assert seen["write"] == "OSError" and not (tmp_path / "wrote").read_bytes()


async def test_a_cancelled_await_kills_its_worker(pool: Pool) -> None:
    pid = await pool.ask(DO, b"pid")
    task = asyncio.create_task(pool.ask(DO, b"sleep"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    until(lambda: not _lives(pid), "the worker is gone")
    assert pool.idle == 0 and await pool.ask(DO, b"echo", a=1) == {"a": 1}


@pytest.mark.one_in(4)
async def test_a_deadline_ends_what_takes_no_processor_time(pool: Pool) -> None:
    short = WorkerJob("short", "tests.worker_jobs", "job", seconds=0.1)
    with pytest.raises(ForeignRefused, match=r"took longer than 2 s"):
        await pool.ask(short, b"sleep")


async def test_more_requests_than_workers_wait_for_their_turn(pool: Pool) -> None:
    found = await asyncio.gather(*(pool.ask(DO, b"echo", number=number) for number in range(20)))
    assert found == [{"number": number} for number in range(20)] and pool.idle <= 2


async def test_a_worker_that_ended_while_it_waited_is_replaced(pool: Pool) -> None:
    pid = await pool.ask(DO, b"pid")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not _lives(pid) or _is_zombie(pid), "it is killed")
    assert await pool.ask(DO, b"pid") != pid


@pytest.mark.one_in(4)
def test_event_loops_and_threads_share_them(pool: Pool) -> None:
    pids = {asyncio.run(pool.ask(DO, b"pid")) for _ in range(3)}
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(pool.ask(DO, b"pid"))))
    thread.start()
    thread.join()
    assert len(pids | set(found)) == 1
    pool.close()
    gc.collect()
    until(lambda: not _lives(found[0]), "it ends with its pool")


_PARENT = """
import asyncio, os, sys, time
from metaflow_agents.workers.jobs import WorkerJob
from metaflow_agents.workers.pool import POOL
job = WorkerJob("tests", "tests.worker_jobs", "job", seconds=100)
async def main():
    print(await POOL.ask(job, b"pid"), flush=True)
    if sys.argv[1] not in ("end", "fork"):
        await POOL.ask(job, sys.argv[1].encode())
asyncio.run(main())
if sys.argv[1] == "fork":
    child = os.fork()
    if not child:
        assert POOL.idle == 0
        print(asyncio.run(POOL.ask(job, b"pid")), flush=True)
        POOL.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["end", "fork"])
def test_none_outlives_its_process(what: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", _PARENT, what], cwd=ROOT, capture_output=True, text=True,
                          check=True)
    assert not done.stderr
    pids = done.stdout.split()
    assert what == "end" or (len(pids), len(set(pids)), pids[0]) == (3, 2, pids[2]), "a child has its own"
    for line in pids:
        until(lambda pid=int(line): not _lives(pid), "it ended")       # type: ignore[misc]


@pytest.mark.parametrize("what", ["sleep", "spin", "spin in C"])
def test_a_worker_dies_with_a_parent_that_is_killed(what: str) -> None:
    """By the kernel: Python in the worker may be busy for a long time."""
    with subprocess.Popen([sys.executable, "-c", _PARENT, what], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)                                 # the second request is on its way, or being worked on: both have to end
        parent.kill()
    until(lambda: not _lives(pid), "it died with its parent", 20)


async def test_a_machine_that_can_start_none_says_so(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="does not start"):
        await pool.ask(WorkerJob("none", "tests.no_such_module", "job"), b"")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(RunError, match="can't start a process that reads foreign files"):
        await pool.ask(DO, b"pid")


async def test_only_what_the_table_names_can_be_asked_for() -> None:
    with pytest.raises(KeyError):
        await parsed("os.system", b"true")
    assert set(JOBS) == {"html", "pdf", "junit", "json", "code", "page", "script", "structures"}


@pytest.mark.one_in(4)
def test_nothing_is_started_by_an_import() -> None:
    code = ("import threading, metaflow_agents.api.run, metaflow_agents.workers.pool as p; "
            "print(p.POOL.idle, threading.active_count())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


@pytest.mark.one_in(4)
def test_a_large_process_has_warm_workers_too() -> None:
    """What the process was before it was a worker is not its own: the kernel's `ru_maxrss` counts a fork of a large one."""
    script = ("import asyncio\nheld = bytearray(b'x') * (320 << 20)\nfrom metaflow_agents.workers.pool import POOL, parsed\n"
              "for _ in range(3):\n    print(asyncio.run(parsed('html', b'<p>hello'))['text'], POOL.idle)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.split(), done.stderr) == (["hello", "1"] * 3, "")
