"""The scratch interpreter: one Python over several pieces of code, and a fresh one where it ended."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from sandboxes import BWRAP, comes, gone, left_in, needs_bubblewrap, running, temporary_in

from metaflow_agents.errors import AnswerInvalid, RunError
from metaflow_agents.sandbox.bubblewrap import Bubblewrap
from metaflow_agents.sandbox.choice import Unchosen
from metaflow_agents.sandbox.port import Executed, Sandbox
from metaflow_agents.sandbox.unconfined import Unconfined

TIME = 30.0


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return temporary_in(tmp_path, monkeypatch)


@pytest.fixture(params=[pytest.param("bubblewrap", marks=needs_bubblewrap), "none"])
def sandbox(request: pytest.FixtureRequest, temporary: Path) -> Sandbox:
    return Bubblewrap(BWRAP, {}) if request.param == "bubblewrap" else Unconfined({"PATH": "/usr/bin:/bin"})


async def test_names_files_and_values_stay(sandbox: Sandbox, temporary: Path) -> None:
    async with sandbox.interpreter(files={"mine.py": b"x = 20"}) as python:
        assert await python.execute("import mine\ny = mine.x\nprint('é')\ny + 1", TIME) == Executed("é\n", "", "21")
        assert await python.execute("y += 1; open('f', 'w').write('text')\ny", TIME) == Executed("", "", "21")
        assert await python.execute("_ * 2, open('f').read()", TIME) == Executed("", "", "(42, 'text')")
        assert await python.execute("y", TIME) == Executed("", "", "21")
        assert await python.execute("None", TIME) == Executed("", "")
        assert await python.execute("", TIME) == Executed("", "")
        assert await python.execute("import os; os.getcwd()", TIME) == Executed("", "", "'.'")
        kept = await python.execute("import pickle\nclass C: pass\ntype(pickle.loads(pickle.dumps(C()))) is C", TIME)
        assert kept == Executed("", "", "True")
    assert left_in(temporary) == []


async def test_a_traceback_is_data_and_shows_the_code(sandbox: Sandbox) -> None:
    async with sandbox.interpreter(files={}) as python:
        await python.execute("def f(n):\n    return 1 // n", TIME)
        told = await python.execute("print('before')\nf(0)", TIME)
        assert (told.stdout, told.value, told.error, told.timed_out) == ("before\n", None, True, False)
        assert told.stderr.startswith('Traceback (most recent call last):\n  File "<python 2>", line 2, in <module>\n    f(0)\n')
        assert told.stderr.endswith("ZeroDivisionError: integer division or modulo by zero\n") and "return 1 // n" in told.stderr
        told = await python.execute("a b", TIME)
        assert told.error and told.stderr.startswith('  File "<python 3>", line 1\n') and "SyntaxError" in told.stderr
        assert (await python.execute("raise SystemExit(3)", TIME)).stderr == "SystemExit: 3\n"
        assert await python.execute("exit()", TIME) == Executed("", "")
        assert (await python.execute("input()", TIME)).stderr.endswith("EOFError: EOF when reading a line\n")
        assert (await python.execute("class C:\n    def __repr__(self): 1 / 0\nC()", TIME)).error
        assert (await python.execute("f(1)", TIME)).value == "1"


async def test_outputs_belong_to_the_code_that_wrote_them_and_are_bounded(sandbox: Sandbox) -> None:
    async with sandbox.interpreter(files={}) as python:
        for number in range(20):
            told = await python.execute(f"import os, sys; os.system('echo {number}'); print({number}, file=sys.stderr)", TIME)
            assert (told.stdout, told.stderr) == (f"{number}\n", f"{number}\n")
        told = await python.execute("print('x' * 5_000_000)", TIME)
        assert told.cut and len(told.stdout) < 300_000 and "more bytes" in told.stdout[-60:]
        told = await python.execute("'x' * 5_000_000", TIME)
        assert told.cut and told.value is not None and len(told.value) == 200_000
        told = await python.execute("print('\\udcff', '\\x00')\n'\\udcff'", TIME)
        assert told.error or told.stdout
        assert await python.execute("1", TIME) == Executed("", "", "1")
        assert "longer than" in (await python.execute("#" * (1 << 21), TIME)).stderr


@pytest.mark.one_in(3)
async def test_what_takes_too_long_is_ended_and_the_next_finds_a_fresh_one(sandbox: Sandbox) -> None:
    marker = f"marker-{os.getpid()}-session"
    code = (f"import subprocess, sys, time\nx = 1; open('f', 'w').write('kept'); print('said', flush=True)\n"
            f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', {marker!r}])\ntime.sleep(60)")
    async with sandbox.interpreter(files={}) as python:
        told = await python.execute(code, 1.5)
        assert (told.stdout, told.timed_out, told.error) == ("said\n", True, True)
        assert told.stderr == ("the interpreter is gone: it took longer than 1.5 seconds; the next code finds a fresh one, "
                               "without the names, on the same files\n")
        assert await gone(marker)
        assert "NameError" in (await python.execute("x", TIME)).stderr
        assert (await python.execute("open('f').read()", TIME)).value == "'kept'"
        told = await python.execute("import os; os.write(2, b'last'); os._exit(7)", TIME)
        assert told.stderr.startswith("last\nthe interpreter is gone: it ended by itself (exit code 7)") and not told.timed_out
        assert (await python.execute("2", TIME)).value == "2"


@pytest.mark.one_in(3)
async def test_a_life_has_its_time_too(sandbox: Sandbox) -> None:
    async with sandbox.interpreter(files={}, timeout=1.5) as python:
        told = await python.execute("import time; time.sleep(60)", TIME)
        assert told.timed_out and "the interpreter is gone" in told.stderr
        assert (await python.execute("1", TIME)).value == "1"


async def test_one_at_a_time(sandbox: Sandbox) -> None:
    async with sandbox.interpreter(files={}) as python:
        await python.execute("n = []", TIME)
        told = await asyncio.gather(*(python.execute(f"n.append({one}); print({one}); len(n)", TIME) for one in range(8)))
        assert [(one.stdout, one.value) for one in told] == [(f"{n}\n", f"{n + 1}") for n in range(8)]


async def test_many_interpreters_do_not_keep_commands_from_their_turn(temporary: Path) -> None:
    sandbox = Unconfined({"PATH": "/usr/bin:/bin"}, parallel=1)
    async with sandbox.interpreter(files={}) as one, sandbox.interpreter(files={}) as two:
        assert (await one.execute("1", TIME)).value == "1"
        assert (await sandbox.run(["echo", "x"], files={})).stdout == "x\n"
        assert (await two.execute("2", TIME)).value == "2"


@pytest.mark.one_in(4)
async def test_nothing_is_left_behind(sandbox: Sandbox, temporary: Path) -> None:
    """Neither at the end, nor after a cancellation, nor after an error of who uses it."""
    marker = f"marker-{os.getpid()}-left"
    code = f"import os, sys\nif os.fork() == 0:\n    os.setsid(); os.execv('/bin/sh', ['sh', '-c', 'sleep 60 #{marker}'])"
    async with sandbox.interpreter(files={}) as python:
        await python.execute(code, TIME)
        assert await comes(marker)
    assert await gone(marker) and left_in(temporary) == []

    async def waits() -> None:
        async with sandbox.interpreter(files={}) as python:
            await python.execute(f"import time\n# {marker}\ntime.sleep(60)", TIME)

    for delay in (0, 0.01, 0.05, 0.3):
        task = asyncio.create_task(waits())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert left_in(temporary) == []
    with pytest.raises(KeyError):
        async with sandbox.interpreter(files={}) as python:
            await python.execute("1", TIME)
            raise KeyError
    assert left_in(temporary) == [] and not running(marker)


async def test_a_cancelled_piece_ends_its_interpreter_alone(sandbox: Sandbox) -> None:
    async with sandbox.interpreter(files={}) as python:
        await python.execute("x = 1", TIME)
        task = asyncio.create_task(python.execute("import time; time.sleep(60)", TIME))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "NameError" in (await python.execute("x", TIME)).stderr


@pytest.mark.one_in(4)
async def test_answers_that_are_none_of_ours_are_not_believed(sandbox: Sandbox) -> None:
    """Whatever comes over the channel: the interpreter is ended, and nothing is taken over."""
    for wrong in ("b'[]'", "b'nothing'", "b'[' * 100000", "b'{\"id\": 1}'", "None"):
        async with sandbox.interpreter(files={}) as python:
            code = f"import gc, socket, struct\nwrong = {wrong}\n" + (
                "for one in gc.get_objects():\n    if isinstance(one, socket.socket):\n"
                "        one.sendall(struct.pack('>I', 1 << 31) if wrong is None else struct.pack('>I', len(wrong)) + wrong)")
            told = await python.execute(code, TIME)
            assert "it wrote an answer of its own" in told.stderr and told.error and told.value is None, (wrong, told)
            assert (await python.execute("1", TIME)).value == "1"


@needs_bubblewrap
async def test_where_the_sandbox_is_gone_nothing_is_executed(temporary: Path, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    shutil.copy(BWRAP, program)
    async with Bubblewrap(str(program), {}).interpreter(files={}) as python:
        assert (await python.execute("1", TIME)).value == "1"
        program.unlink()
        assert (await python.execute("2", TIME)).value == "2"               # the one that lives is held
        await python.execute("import os; os._exit(0)", TIME)
        for _ in range(2):
            with pytest.raises(RunError, match="bubblewrap is gone"):
                await python.execute("3", TIME)
    assert left_in(temporary) == []


async def test_refused_files_and_no_sandbox(sandbox: Sandbox) -> None:
    with pytest.raises(AnswerInvalid, match="refused"):
        sandbox.interpreter(files={"../x": b""})
    with pytest.raises(RunError, match="without a sandbox"):
        Unchosen().interpreter(files={})
