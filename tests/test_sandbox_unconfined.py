from __future__ import annotations

import asyncio
import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from patience import PATIENCE
from sandboxes import comes, gone, left_in, running

from metaflow_agents.errors import AnswerInvalid, RunError
from metaflow_agents.sandbox import process
from metaflow_agents.sandbox.carrier import Order, _Command
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.sanitised import SHOWN_CHARACTERS
from metaflow_agents.sandbox.unconfined import Unconfined


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see that nothing stays in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def sandbox(temporary: Path) -> Unconfined:
    return Unconfined({"PATH": "/usr/bin:/bin"})


async def test_a_command_sees_exactly_the_files_and_a_clean_environment(
    sandbox: Unconfined, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    code = ("import os, sys, json; print(json.dumps({"
            "'files': sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs),"
            "'env': dict(os.environ), 'in': sys.stdin.read(), 'mode': os.stat('b/c').st_mode & 0o777}))")
    ran = await sandbox.run(["python", "-c", code], files={"a": b"1", "b/c": b"2"})
    told = json.loads(ran.stdout)
    assert ran.exit_code == 0
    assert ran.ok
    assert told["files"] == ["./a", "./b/c"]
    assert told["in"] == ""
    assert told["mode"] == 0o644
    assert "OPENAI_API_KEY" not in told["env"]
    assert told["env"]["HOME"] == "../home"
    assert told["env"]["TMPDIR"] == "../tmp"
    assert told["env"]["LANG"] == "C.UTF-8"
    assert told["env"]["PYTHONHASHSEED"] == "0"
    assert told["env"]["PATH"].endswith(":/usr/bin:/bin")
    assert left_in(temporary) == []


async def test_a_red_exit_code_is_data_and_files_come_back(sandbox: Unconfined) -> None:
    code = "import os, sys; os.mkdir('o'); open('o/x', 'w').write(os.getcwd()); print('é', file=sys.stderr); sys.exit(3)"
    ran = await sandbox.run(["python3", "-c", code], files={}, collect=["o/x", "never"])
    assert (ran.exit_code, ran.ok, ran.stderr, ran.timed_out, ran.cut) == (3, False, "é\n", False, False)
    assert ran.files == {"o/x": b"."}


async def test_bytes_that_are_no_text_are_replaced(sandbox: Unconfined) -> None:
    ran = await sandbox.run(["python", "-c", r"import sys; sys.stdout.buffer.write(b'a\xffb')"], files={})
    assert ran.stdout == "a\ufffdb"


async def test_long_output_is_cut_and_told(sandbox: Unconfined) -> None:
    ran = await sandbox.run(["python", "-c", "print('é' * 3_000_000, end='')"], files={})
    assert ran.cut
    assert ran.stdout.startswith("é" * SHOWN_CHARACTERS + "\n… cut: ")
    assert f"cut: {6_000_000 - 2 * SHOWN_CHARACTERS} more bytes" in ran.stdout[-60:]
    small = await sandbox.run(["python", "-c", f"print('é' * {SHOWN_CHARACTERS}, end='')"], files={})
    assert not small.cut


async def test_what_cannot_start_is_data(sandbox: Unconfined) -> None:
    ran = await sandbox.run(["no-such-command-here"], files={})
    assert ran.exit_code == 127
    assert "no-such-command-here: command not found" in ran.stderr
    ran = await sandbox.run(["./x"], files={"x": b"echo"})
    assert ran.exit_code == 126
    ran = await sandbox.run(["python", "a\0b"], files={})
    assert ran.exit_code == 126


@pytest.mark.parametrize("path", ["../x", "/x", ".git/config", "a//b"])
async def test_refused_paths_raise(sandbox: Unconfined, path: str) -> None:
    with pytest.raises(AnswerInvalid, match="refused"):
        await sandbox.run(["true"], files={path: b""})
    with pytest.raises(AnswerInvalid, match="refused"):
        await sandbox.run(["true"], files={}, collect=[path])
    with pytest.raises(AnswerInvalid, match="folder"):
        await sandbox.run(["true"], files={"a": b"", "a/b": b""})


@pytest.mark.parametrize("code", ["os.symlink('/etc/passwd', 'x')", "os.mkdir('x')", "os.mkfifo('x')"])
async def test_only_regular_files_are_collected(sandbox: Unconfined, code: str) -> None:
    with pytest.raises(AnswerInvalid, match="not a regular file"):
        await sandbox.run(["python", "-c", f"import os; {code}"], files={}, collect=["x"])


async def test_a_folder_that_leads_outside_is_not_collected_from(sandbox: Unconfined) -> None:
    with pytest.raises(AnswerInvalid, match="not a regular file"):
        await sandbox.run(["python", "-c", "import os; os.symlink('/etc', 'x')"], files={}, collect=["x/passwd"])


@pytest.fixture(params=["all it has", "no /proc", "no pidfd", "neither"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system offers to find processes and their ends with: groups must do where it has nothing else."""
    if request.param in ("no /proc", "neither"):
        monkeypatch.setattr(process, "_marked", lambda _: [])
    if request.param in ("no pidfd", "neither"):
        monkeypatch.setattr(process, "pidfd_of", lambda _: None)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("system")
async def test_timeout_kills_the_whole_group(sandbox: Unconfined, temporary: Path) -> None:
    marker = f"marker-{os.getpid()}-timeout"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)', '{marker}']).wait()"
    async with asyncio.timeout(PATIENCE):
        ran = await sandbox.run(["python", "-c", code], files={"a": b""}, timeout=0.5)
    assert ran.timed_out
    assert ran.exit_code == -9
    assert await gone(marker)
    assert left_in(temporary) == []


async def test_a_grandchild_that_keeps_the_pipe_holds_nothing_up(sandbox: Unconfined) -> None:
    marker = f"marker-{os.getpid()}-daemon"
    child = f"[sys.executable, '-c', 'import time; time.sleep(3600)', '{marker}']"
    code = (f"import subprocess, sys; print('out', flush=True); subprocess.Popen({child}, start_new_session=True); "
            f"subprocess.Popen({child})")
    async with asyncio.timeout(PATIENCE):
        ran = await sandbox.run(["python", "-c", code], files={})
    assert (ran.exit_code, ran.stdout, ran.timed_out) == (0, "out\n", False)
    assert await gone(marker)


@pytest.mark.usefixtures("system")
async def test_cancellation_goes_on_only_when_nothing_runs(sandbox: Unconfined, temporary: Path) -> None:
    marker = f"marker-{os.getpid()}-cancel"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)', '{marker}']).wait()"
    task = asyncio.create_task(sandbox.run(["python", "-c", code], files={}))
    assert await comes(marker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left_in(temporary) == []
    assert await gone(marker)


async def test_cancellation_at_any_moment_leaves_nothing(sandbox: Unconfined, temporary: Path) -> None:
    for delay in (0, 0.001, 0.005, 0.02, 0.05):
        task = asyncio.create_task(sandbox.run(["sleep", "59.125"], files={f"f{n}": b"x" for n in range(50)}, timeout=20))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not running("59.125")
        assert left_in(temporary) == []


BLOCKING = {"open", "subprocess.Popen", "os.mkdir", "os.listdir", "os.scandir", "os.remove", "os.rmdir", "os.rename", "os.chmod",
            "os.chown", "shutil.rmtree"}


@pytest.fixture
def touched() -> Iterator[list[tuple[str, bool]]]:
    """What Python tells of its calls to the system while this is open: which, and whether the loop's thread made it."""
    found: list[tuple[str, bool]] = []
    mine, open_ = threading.get_ident(), True

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if open_ and event in BLOCKING:
            found.append((event, threading.get_ident() == mine))

    sys.addaudithook(hear)                      # it can't be taken away again, only told to hear nothing
    yield found
    open_ = False


async def test_the_loop_is_never_blocked(sandbox: Unconfined, tmp_path: Path, touched: list[tuple[str, bool]]) -> None:
    """Nothing that may take long is called by the loop's thread; and it goes on while the command waits for what it does."""
    os.mkfifo(tmp_path / "begun")
    begun = os.open(tmp_path / "begun", os.O_RDWR)
    touched.clear()
    code = (f"import pathlib, time; pathlib.Path({str(tmp_path / 'begun')!r}).write_text('now'); print('x' * 5_000_000)\n"
            f"while not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.01)")
    task = asyncio.create_task(sandbox.run(["python", "-c", code], files={f"d{n}/f": b"x" * 1000 for n in range(50)}, timeout=20))
    heard, _, _ = await asyncio.to_thread(select.select, [begun], [], [], 20.0)
    assert heard == [begun]
    own = len(touched)
    os.mknod(tmp_path / "go")
    os.close(begun)
    assert (await task).exit_code == 0
    before, after = {event for event, mine in touched[:own] if not mine}, {event for event, mine in touched[own:] if not mine}
    assert {"open", "os.mkdir", "subprocess.Popen"} <= before and after, "it was listened to"
    assert not [event for event, mine in touched if mine]


async def test_what_a_command_locked_is_removed(sandbox: Unconfined, temporary: Path) -> None:
    code = "import os; os.makedirs('d/e'); open('d/e/f', 'w'); os.chmod('d/e', 0o500); os.chmod('d', 0)"
    ran = await sandbox.run(["python", "-c", code], files={})
    assert ran.exit_code == 0
    assert left_in(temporary) == []


async def test_many_at_once(temporary: Path) -> None:
    sandbox = Unconfined({"PATH": "/usr/bin:/bin"}, parallel=4)
    results = await asyncio.gather(*(sandbox.run(["echo", str(n)], files={}) for n in range(20)))
    assert [r.stdout for r in results] == [f"{n}\n" for n in range(20)]


async def test_no_room_is_a_run_error(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "not-there"))
    with pytest.raises(RunError, match="can't write the files of a command"):
        await Unconfined({}).run(["true"], files={})


def stopped_while_it_ends(folder: Path, at: int) -> bool:
    """Stops a command whose own thread takes its group away and closes it before the `at`-th instruction of `stop`. Whether
    `stop` has so many.
    """
    command = _Command(Unconfined({}), Order(("true",)), {}, (), False)
    group = command._group = ProcessGroup(["true"], folder=folder, environment={}, timeout=None)
    left = at

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code is not _Command.stop.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if left == 0:
                command._group = None
                group.close()
            left -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        command.stop()
    finally:
        sys.settrace(before)
    if left >= 0:
        group.close()
    return left < 0


def test_a_command_may_end_at_any_instruction_of_its_stop(tmp_path: Path) -> None:
    """Nothing is raised in `stop`, which the event loop calls: it would be taken for a failure of the attempt."""
    instructions = sum(1 for _ in itertools.takewhile(lambda at: stopped_while_it_ends(tmp_path, at), itertools.count()))
    assert instructions > 5


def test_a_group_without_a_marker_ends_its_own_processes_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of every process ends with a NUL, behind which the empty text stands."""
    assert not process._marked("")
    assert not process._marked("=")
    monkeypatch.setenv("SOP_TEST_MARK", "here")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        over = time.monotonic() + 10            # a process that has just begun shows its environment a moment later
        while not (found := process._marked("SOP_TEST_MARK=here")) and time.monotonic() < over:
            time.sleep(0.01)
        assert found == [child.pid]
    finally:
        child.communicate(b"\n")
