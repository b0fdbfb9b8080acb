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
from metaflow_agents.sandbox.limits import SandboxLimits, Watchdog
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.sanitised import SHOWN_CHARACTERS

pytestmark = needs_bubblewrap
MB = 1 << 20
FOR_EVER = "import time; time.sleep(30)"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see that nothing stays in it."""
    return temporary_in(tmp_path, monkeypatch)


async def within(limits: SandboxLimits, code: str, **options: Any) -> Completed:
    return await Bubblewrap(BWRAP, {}, limits=limits).run(["python", "-c", code], files={}, **options)


async def test_time(temporary: Path) -> None:
    for given, limit in ((0.5, SandboxLimits()), (None, SandboxLimits(seconds=0.5))):
        async with asyncio.timeout(PATIENCE):
            ran = await within(limit, FOR_EVER, timeout=given)
        assert (ran.exit_code, ran.timed_out, ran.ok) == (-9, True, False)
        assert ran.stderr == "ended by the sandbox: it ran longer than 0.5 seconds\n"
    assert left_in(temporary) == []


@pytest.mark.one_in(4)
async def test_processor_time() -> None:
    ran = await within(SandboxLimits(cpu=1), "while True: pass")
    assert ran.exit_code in (-24, -9) and not ran.timed_out


async def test_memory_taken_at_once_is_not_given() -> None:
    ran = await within(SandboxLimits(memory=128 * MB), "bytearray(1 << 30)")
    assert ran.exit_code == 1 and "MemoryError" in ran.stderr


@pytest.mark.parametrize("code", [
    "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        kept = bytearray(b'x') * (60 << 20); break\n" + FOR_EVER,
    "import mmap\nkept = mmap.mmap(-1, 300 << 20)\nfor _ in range(300): kept.write(b'x' * (1 << 20))\n" + FOR_EVER,
    "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
    "place = libc.mmap(None, ctypes.c_size_t(1 << 40), 1, 0x4022, -1, 0)\n"
    "for at in range(0, 1 << 38, 1 << 21): ctypes.c_char.from_address(place + at).value\n" + FOR_EVER,
], ids=["by several processes", "shared and of no file", "of the tables that map it"])
async def test_memory_of_the_whole_tree(code: str) -> None:
    ran = await within(SandboxLimits(memory=128 * MB), code)
    assert (ran.exit_code, ran.timed_out) == (-9, False)
    assert "ended by the sandbox: it took more than 128 MB of memory\n" in ran.stderr


async def test_memory_that_processes_share_counts_once() -> None:
    code = ("import os, time\nkept = bytearray(b'x') * (80 << 20)\n"
            "for _ in range(4):\n    if os.fork() == 0: break\ntime.sleep(0.5)")
    ran = await within(SandboxLimits(memory=160 * MB), code)
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
    ran = await within(SandboxLimits(processes=40), BOMB)
    made, error = ran.stdout.split()
    assert 30 <= int(made) <= 40 and error == "11", ran                       # EAGAIN
    threads = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(1,), daemon=True).start()"
    ran = await within(SandboxLimits(processes=40), threads)
    assert ran.exit_code == 1 and "can't start new thread" in ran.stderr
    monkeypatch.setattr(limits, "_kernel", lambda: (4, 18))                   # one that counts what the user runs anywhere
    ran = await within(SandboxLimits(processes=40), BOMB + "time.sleep(30)")
    assert (ran.exit_code, ran.timed_out) == (-9, False)
    assert "ended by the sandbox: it had more than 40 processes and threads at once\n" in ran.stderr


@pytest.mark.one_in(4)
async def test_a_bomb_of_bombs_is_bounded_and_gone(temporary: Path) -> None:
    marker = "bomb-of-bombs"
    script = f"b() {{ b {marker} | b {marker} & }}; b; sleep 30"
    ran = await Bubblewrap(BWRAP, {}, limits=SandboxLimits(processes=60)).run(["bash", "-c", script], files={}, timeout=1.5)
    assert ran.exit_code != 0 or ran.timed_out
    assert await gone(marker) and not running(marker)
    assert left_in(temporary) == []


async def test_files(temporary: Path) -> None:
    ran = await within(SandboxLimits(file=MB), "open('x', 'wb').write(b'x' * (2 << 20))")
    assert ran.exit_code == 1 and "File too large" in ran.stderr
    many = "import itertools, os\nfor n in itertools.count(): "
    ran = await within(SandboxLimits(disk=20 * MB), many + "open(f'/sop/home/{n}', 'wb').write(b'x' * (1 << 20))")
    assert ran.exit_code == -9 and "ended by the sandbox: it wrote more than 20 MB of files\n" in ran.stderr
    ran = await within(SandboxLimits(entries=500), many + "open(str(n), 'w').close()")
    assert ran.exit_code == -9 and "ended by the sandbox: it made more than 500 files and folders\n" in ran.stderr
    ran = await within(SandboxLimits(open_files=64), "kept = [open('/dev/null') for _ in range(100)]")
    assert ran.exit_code == 1 and "Too many open files" in ran.stderr
    for place in ("/tmp", "/dev/shm"):
        ran = await within(SandboxLimits(tmp=MB, shm=MB), f"open('{place}/x', 'wb').write(b'x' * (2 << 20))")
        assert ran.exit_code == 1 and "No space left on device" in ran.stderr
    assert left_in(temporary) == []


@pytest.mark.one_in(4)
async def test_files_in_memory(temporary: Path) -> None:
    """Without a byte in them they pass no size: each takes a kilobyte of the kernel's memory."""
    for code in ("for n in range(400000): open(f'/tmp/{n}', 'w').close()",
                 "import os\nopen('/dev/shm/x', 'w')\nfor n in range(400000): os.link('/dev/shm/x', f'/dev/shm/{n}')",
                 "import os, time\nfor n in range(700): os.mkdir(f'/tmp/{n}')\n"
                 "for n in range(700): os.mkdir(f'/sop/home/{n}')\ntime.sleep(30)"):
        ran = await within(SandboxLimits(entries=1000), code)
        assert (ran.exit_code, ran.timed_out) == (-9, False), ran
        assert "ended by the sandbox: it made more than 1,000 files and folders\n" in ran.stderr
    ran = await within(
        SandboxLimits(entries=1000), "for n in range(800): open(f'/tmp/{n}', 'w').close()\nimport time; time.sleep(0.5)"
    )
    assert ran.ok, ran


@pytest.mark.one_in(4)
async def test_descriptors_and_sockets(temporary: Path) -> None:
    pipes = ("import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n"
             "        kept = [os.pipe() for _ in range(40)]; break\ntime.sleep(")
    ran = await within(SandboxLimits(descriptors=1000), f"{pipes}30)")
    assert ran.exit_code == -9 and "its processes had more than 1,000 files open at once\n" in ran.stderr, ran
    assert (await within(SandboxLimits(descriptors=4000), f"{pipes}0.5)")).ok
    under_way = ("import socket, time\na, b = socket.socketpair()\nfor _ in range(20):\n    two = socket.socketpair()\n"
                 "    socket.send_fds(a, [b'x'], [one.fileno() for one in two])\ndel two\ntime.sleep(")
    ran = await within(SandboxLimits(sockets=30), f"{under_way}30)")
    assert ran.exit_code == -9 and "it had more than 30 sockets at once\n" in ran.stderr, ran
    assert (await within(SandboxLimits(sockets=60), f"{under_way}0.5)")).ok


def test_a_look_comes_early_where_much_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at many files takes long, so the next one is due much later: until then the disk itself says how much was made."""
    copy, left = tmp_path / "copy", [(1000, 1 << 20)]
    copy.mkdir()
    monkeypatch.setattr(limits, "_free", lambda _: left[0])
    watchdog = Watchdog(SandboxLimits(entries=2, disk=1 << 16), 2 ** 22 - 1, [copy])

    def looked() -> str:
        time.sleep(watchdog.due() + 0.01)
        return watchdog.look()

    assert looked() == ""
    watchdog._disk_due = float("inf")
    for number in range(3):
        (copy / str(number)).touch()
    assert looked() == ""
    left[0] = (997, 1 << 20)
    assert looked() == "it made more than 2 files and folders"
    for number in range(3):
        (copy / str(number)).unlink()
    (copy / "large").write_bytes(b"x" * (1 << 17))
    left[0] = (1000, 1 << 19)
    assert looked() == "it wrote more than 0 MB of files"


def test_what_can_not_be_counted_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: str) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(limits, "_entries", closed)
    watchdog = Watchdog(SandboxLimits(), 2 ** 22 - 1, [tmp_path], mounts=("/dev/shm", "/tmp"))
    time.sleep(watchdog.due() + 0.01)
    assert watchdog.look() == "its files in /dev/shm and /tmp can't be counted: Operation not permitted"


async def test_output() -> None:
    ran = await within(
        SandboxLimits(), "import sys\nfor _ in range(40): print('é' * 100_000, end=''); print('x', file=sys.stderr)"
    )
    assert ran.cut and ran.ok and ran.stderr == "x\n" * 40
    assert ran.stdout.startswith("é" * SHOWN_CHARACTERS + "\n… cut: ")
    assert f"cut: {8_000_000 - 2 * SHOWN_CHARACTERS} more bytes" in ran.stdout[-60:]


def test_the_watchdog_looks_at_what_is_there(tmp_path: Path) -> None:
    """It passes over what is locked and what has ended, and follows no link."""
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "file").write_bytes(b"x" * 5000)
    watchdog = Watchdog(SandboxLimits(entries=1), 2 ** 22 - 1, [tmp_path, tmp_path / "never"])
    assert watchdog.look() == "" and watchdog.due() > 0
    time.sleep(watchdog.due() + 0.01)
    assert watchdog.look() == "it made more than 1 files and folders"
