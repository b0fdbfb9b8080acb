"""How much a confined command may take: of time, memory, processes, files and output, whatever it starts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from sandboxes import BWRAP, gone, left_in, needs_bubblewrap, running, temporary_in

from metaflow_agents.sandbox import limits
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.limits import Limits, Watchdog
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.shown import SHOWN_CHARACTERS

pytestmark = needs_bubblewrap
MB = 1 << 20
FOR_EVER = "import time; time.sleep(30)"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see that nothing stays in it."""
    return temporary_in(tmp_path, monkeypatch)


async def within(limits: Limits, code: str, **options: Any) -> Completed:
    return await Bubblewrap(BWRAP, {}, limits=limits).run(["python", "-c", code], files={}, **options)


async def test_time(temporary: Path) -> None:
    for given, limit in ((0.5, Limits()), (None, Limits(seconds=0.5))):
        async with asyncio.timeout(PATIENCE):
            ran = await within(limit, FOR_EVER, timeout=given)
        assert (ran.exit_code, ran.timed_out, ran.ok) == (-9, True, False)
        assert ran.stderr == "ended by the sandbox: it ran longer than 0.5 seconds\n"
    assert left_in(temporary) == []


async def test_processor_time() -> None:
    ran = await within(Limits(cpu=1), "while True: pass")
    assert ran.exit_code in (-24, -9) and not ran.timed_out


async def test_memory_taken_at_once_is_not_given() -> None:
    ran = await within(Limits(memory=128 * MB), "bytearray(1 << 30)")
    assert ran.exit_code == 1 and "MemoryError" in ran.stderr


@pytest.mark.parametrize("code", [
    "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        kept = bytearray(b'x') * (60 << 20); break\n" + FOR_EVER,
    "import mmap\nkept = mmap.mmap(-1, 300 << 20)\nfor _ in range(300): kept.write(b'x' * (1 << 20))\n" + FOR_EVER,
], ids=["by several processes", "shared and of no file"])
async def test_memory_of_the_whole_tree(code: str) -> None:
    ran = await within(Limits(memory=128 * MB), code)
    assert (ran.exit_code, ran.timed_out) == (-9, False)
    assert "ended by the sandbox: it took more than 128 MB of memory\n" in ran.stderr


async def test_memory_that_processes_share_counts_once() -> None:
    code = ("import os, time\nkept = bytearray(b'x') * (80 << 20)\n"
            "for _ in range(4):\n    if os.fork() == 0: break\ntime.sleep(0.5)")
    ran = await within(Limits(memory=160 * MB), code)
    assert ran.ok, ran


BOMB = """
import os, time
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, error.errno)
"""


async def test_processes(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = await within(Limits(processes=40), BOMB)
    made, error = ran.stdout.split()
    assert 30 <= int(made) <= 40 and error == "11", ran                       # EAGAIN
    threads = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(1,), daemon=True).start()"
    ran = await within(Limits(processes=40), threads)
    assert ran.exit_code == 1 and "can't start new thread" in ran.stderr
    monkeypatch.setattr(limits, "_kernel", lambda: (4, 18))                   # one that counts what the user runs anywhere
    ran = await within(Limits(processes=40), BOMB + "time.sleep(30)")
    assert (ran.exit_code, ran.timed_out) == (-9, False)
    assert "ended by the sandbox: it had more than 40 processes and threads at once\n" in ran.stderr


async def test_a_bomb_of_bombs_is_bounded_and_gone(temporary: Path) -> None:
    marker = "bomb-of-bombs"
    script = f"b() {{ b {marker} | b {marker} & }}; b; sleep 30"
    ran = await Bubblewrap(BWRAP, {}, limits=Limits(processes=60)).run(["bash", "-c", script], files={}, timeout=1.5)
    assert ran.exit_code != 0 or ran.timed_out
    assert await gone(marker) and not running(marker)
    assert left_in(temporary) == []


async def test_files(temporary: Path) -> None:
    ran = await within(Limits(file=MB), "open('x', 'wb').write(b'x' * (2 << 20))")
    assert ran.exit_code == 1 and "File too large" in ran.stderr
    many = "import itertools, os\nfor n in itertools.count(): "
    ran = await within(Limits(disk=20 * MB), many + "open(f'/sop/home/{n}', 'wb').write(b'x' * (1 << 20))")
    assert ran.exit_code == -9 and "ended by the sandbox: it wrote more than 20 MB of files\n" in ran.stderr
    ran = await within(Limits(entries=500), many + "open(str(n), 'w').close()")
    assert ran.exit_code == -9 and "ended by the sandbox: it made more than 500 files and folders\n" in ran.stderr
    ran = await within(Limits(open_files=64), "kept = [open('/dev/null') for _ in range(100)]")
    assert ran.exit_code == 1 and "Too many open files" in ran.stderr
    for place in ("/tmp", "/dev/shm"):
        ran = await within(Limits(tmp=MB, shm=MB), f"open('{place}/x', 'wb').write(b'x' * (2 << 20))")
        assert ran.exit_code == 1 and "No space left on device" in ran.stderr
    assert left_in(temporary) == []


async def test_output() -> None:
    ran = await within(Limits(), "import sys\nfor _ in range(40): print('é' * 100_000, end=''); print('x', file=sys.stderr)")
    assert ran.cut and ran.ok and ran.stderr == "x\n" * 40
    assert ran.stdout.startswith("é" * SHOWN_CHARACTERS + "\n… cut: ")
    assert f"cut: {8_000_000 - 2 * SHOWN_CHARACTERS} more bytes" in ran.stdout[-60:]


def test_the_watchdog_looks_at_what_is_there(tmp_path: Path) -> None:
    """It passes over what is locked and what has ended, and follows no link."""
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "file").write_bytes(b"x" * 5000)
    watchdog = Watchdog(Limits(entries=1), 2 ** 22 - 1, [tmp_path, tmp_path / "never"])
    assert watchdog.look() == "" and watchdog.due() > 0
    time.sleep(watchdog.due() + 0.01)
    assert watchdog.look() == "it made more than 1 files and folders"
