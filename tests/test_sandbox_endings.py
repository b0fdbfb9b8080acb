"""Whatever a confined command started is gone when it has ended, was cancelled, or lost the process that started it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sandboxes import BWRAP, facts_of, gone, left_in, needs_bubblewrap, running, temporary_in

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bubblewrap, probe
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.confined import Confined
from metaflow_agents.sandbox.probe import bubblewrap_holds

pytestmark = needs_bubblewrap


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see that nothing stays in it."""
    return temporary_in(tmp_path, monkeypatch)


@pytest.fixture
def box(temporary: Path) -> Bubblewrap:
    return Bubblewrap(BWRAP, {})


async def test_it_ends_with_all_that_it_started(box: Bubblewrap, temporary: Path) -> None:
    """A daemon that left its session, its group and its pipes is gone when the call returns, not some time after."""
    marker = f"marker-{os.getpid()}-daemon"
    code = f"""
import os, sys, subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(30)', '{marker}'])
    os._exit(0)
os.wait()
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)', '{marker}'])
print('out', flush=True)
"""
    ran = await box.run(["python", "-c", code], files={})
    assert running(marker) == []
    assert (ran.exit_code, ran.stdout) == (0, "out\n")
    assert left_in(temporary) == []


async def test_cancellation_at_any_moment_leaves_nothing(box: Bubblewrap, temporary: Path) -> None:
    marker = f"59.{os.getpid()}5"
    for delay in (0, 0.001, 0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.2):
        command = ["sh", "-c", f"sleep {marker} & sleep {marker}"]
        task = asyncio.create_task(box.run(command, files={f"f{n}": b"" for n in range(20)}))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running(marker) == []
        assert left_in(temporary) == []


async def test_nothing_starts_without_a_word_from_the_orchestrator(box: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may have been killed since it started bubblewrap."""
    monkeypatch.setattr(Confined, "_held", lambda self, _: self._ours.shutdown(socket.SHUT_WR))
    with pytest.raises(RunError, match="so it was not run"):
        await box.run(["sleep", "60"], files={}, timeout=20)


ORCHESTRATOR = """
import asyncio, sys
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
async def main():
    box = Bubblewrap(sys.argv[1], {})
    command = ["sh", "-c", f"setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}"]
    print("starts", flush=True)
    await asyncio.gather(*(box.run(command, files={}) for _ in range(4)))
asyncio.run(main())
"""


@pytest.mark.one_in(8, always=False)
def test_nothing_outlives_the_orchestrator(tmp_path: Path) -> None:
    """SIGKILL, which leaves it no time for anything, at moments from before the first command to long after."""
    markers = []
    for turn, delay in enumerate((0.0, 0.004, 0.008, 0.012, 0.016, 0.02, 0.03, 0.05, 0.08, 0.12, 0.5)):
        markers.append(f"58.{os.getpid()}{turn:02}")
        with subprocess.Popen([sys.executable, "-c", ORCHESTRATOR, BWRAP, markers[-1]], stdout=subprocess.PIPE,
                              env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.kill()
    for marker in markers:
        assert asyncio.run(gone(marker)), [facts_of(pid) for pid in running(marker)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root's first process is root's, and commands are not")
def test_a_first_process_that_the_command_may_change_is_noticed(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    """It would have to end everything when the orchestrator is gone. In one stage it is the command's own user."""
    monkeypatch.setattr(bubblewrap, "_has_setuid", lambda _: True)
    probe._holds.cache_clear()
    try:
        assert "it may change the process that ends it" in bubblewrap_holds(os.defpath).why
    finally:
        probe._holds.cache_clear()
