"""The watchdog: a loop that stands still is told with its place, once; a stop that it does not hear ends the process."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cli_desk import SOP, environment

from metaflow_agents.threads.watchdog import Watch, place_of, watched
from tests.patience import PATIENCE, until


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.one_in(8, always=False)
async def test_a_standstill_is_told_once_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "metaflow_agents")
    with watched():
        for _ in range(2):
            await asyncio.sleep(0.6)
            stand_still(1.8)
        await asyncio.sleep(0.6)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("the event loop stood still for ") and said.endswith("(stand_still)")
    assert " in test_watchdog.py:" in said


@pytest.mark.one_in(4)
async def test_a_loop_that_turns_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with watched(), watched():
        await asyncio.sleep(1.5)
    assert not caplog.records
    until(lambda: not any(thread.name == "watchdog" for thread in threading.enumerate()), "its thread ended with the last loop")


async def test_a_process_that_was_stopped_is_no_standstill(caplog: pytest.LogCaptureFixture) -> None:
    """After SIGSTOP, or a night with the lid closed."""
    watch = Watch(asyncio.get_running_loop())
    watch.look(0.25, 0.0)               # asks
    watch._asked -= 100
    watch.look(100.0, 0.01)
    watch.look(0.25, 0.0)
    assert not caplog.records


def test_where_the_library_waits_is_told_as_who_called_it() -> None:
    frames: list[str] = []
    ready = threading.Event()

    def waits() -> None:
        ready.set()
        threading.Event().wait(1)

    thread = threading.Thread(target=waits)
    thread.start()
    ready.wait()
    time.sleep(0.2)
    frames.append(place_of(sys._current_frames()[thread.ident or 0]))
    thread.join()
    assert frames[0].startswith("test_watchdog.py:") and frames[0].endswith("(waits)")


_FROZEN = """
import asyncio, sys
def forever(answer):
    print("frozen", flush=True)
    while True:
        pass
async def steps(answer):
    forever(answer)
"""
_SOP = "sop: frozen\nartifacts: {a: {schema: string}}\nsteps:\n  s: {call: 'frozen:steps', args: {answer: \"'x'\"}, makes: a}\n"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_process_whose_loop_stands_still(tmp_path: Path, number: int) -> None:
    """Somebody's coroutine that never awaits: the loop hears of no stop. What was committed is in the journal."""
    (tmp_path / "frozen.py").write_text(_FROZEN)
    (tmp_path / "frozen.yaml").write_text(_SOP)
    with subprocess.Popen([*SOP, "run", "frozen.yaml"], cwd=tmp_path, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            while b"frozen\n" not in (line := process.stdout.readline()):
                assert line, process.stderr.read().decode()
            process.send_signal(number)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()
