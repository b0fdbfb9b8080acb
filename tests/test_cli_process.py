"""The command as a process: exit statuses, signals, closed pipes, encodings, terminals, and what it costs to start."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest
from cli_desk import SOP, environment, lay_out, sop
from openai_server import OpenAIServer
from patience import PATIENCE, until

from benchmarks.large_journal import Shape, make_large_journal


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SOPs, and one finished run called `done`."""
    folder = lay_out(tmp_path_factory.mktemp("process"))
    ended = sop(folder, "run", "looped.yaml", "--model", "python:desk.py:answer", "--topic", "tea", "--name", "done")
    assert ended.returncode == 0, ended.stderr
    return folder


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`sop …`, running; killed at the end where it still does."""
    with subprocess.Popen([*SOP, *words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def slow_run(folder: Path, function: str, name: str) -> list[str]:
    (folder / "begun").unlink(missing_ok=True)
    return ["run", "slow.yaml", "--model", f"python:slow_desk.py:{function}", "--name", name]


# -- signals

@pytest.mark.one_in(12, always=False)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_interrupt_stops_cleanly_and_the_run_goes_on_later(home: Path, number: signal.Signals) -> None:
    name = f"once-{number.name}"
    with started(home, *slow_run(home, "sleeping", name)) as process:
        until((home / "begun").exists, "a model is asked")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == "sop: stopping… (again to kill)\n" and f"{name}: interrupted" in out and f"sop resume {name}" in out
    assert sop(home, "log", name, "--kind", "run_ended").stdout.rstrip().endswith("run: ends: interrupted")
    assert not (home / "workspace" / ".journals" / f"{name}.db.lock").exists()
    resumed = sop(home, "resume", name, "--model", "python:slow_desk.py:quick")
    assert resumed.returncode == 0 and f"{name}: success" in resumed.stdout, resumed.stderr


@pytest.mark.slow
def test_a_second_interrupt_ends_the_process_at_once(home: Path) -> None:
    """The model's thread can't be cancelled, so the first Ctrl-C waits for it; the second waits for nothing."""
    with started(home, *slow_run(home, "deaf", "twice")) as process:
        until((home / "begun").exists, "a model is asked")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None and process.stderr.readline() == "sop: stopping… (again to kill)\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130            # the thread sleeps three times as long
    assert "twice" in sop(home, "runs").stdout and json.loads(sop(home, "show", "twice", "--json").stdout)["state"] == "killed"
    resumed = sop(home, "resume", "twice", "--model", "python:slow_desk.py:quick")
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.one_in(4)
def test_nothing_keeps_a_second_interrupt_from_ending_the_process(home: Path) -> None:
    """It may come in the middle of a line that is written, and then nothing more can be written."""
    script = """if True:
        import asyncio, os, signal
        from metaflow_agents.cli import drive
        class Face:
            def note(self, text): print(text, flush=True)
            def close(self): raise RuntimeError("reentrant call")
        class Going:
            def stop(self): pass
        async def main():
            with drive._stopping(Going(), Face()):
                for _ in range(2):
                    os.kill(os.getpid(), signal.SIGINT)
                    await asyncio.sleep(0.01)
                await asyncio.sleep(60)
        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", script], cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 130, done.stderr


@pytest.mark.one_in(8)
def test_no_command_is_left_running(home: Path) -> None:
    noted = home / "pid"
    with started(home, "run", "command.yaml", "--sandbox", "none", "--file", str(noted), "--name", "command") as process:
        until(lambda: noted.exists() and noted.read_text().strip(), "the command runs")
        pid = int(noted.read_text())
        os.kill(pid, 0)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    until(lambda: not alive(pid), "the command is gone")


@pytest.mark.one_in(4)
def test_no_command_is_left_running_by_a_second_interrupt(home: Path) -> None:
    """Somebody's function keeps the loop from turning: nothing but the handler itself can end the command."""
    noted = home / "noted"
    (home / "begun").unlink(missing_ok=True)
    with started(home, "run", "both.yaml", "--sandbox", "none", "--file", str(noted), "--name", "both",
                 "--model", "python:slow_desk.py:blocking") as process:
        until(lambda: noted.exists() and noted.read_text().strip() and (home / "begun").exists(), "both are under way")
        pid = int(noted.read_text())
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)                         # two signals at once would be one
        assert process.poll() is None and alive(pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    until(lambda: not alive(pid), "the command is gone")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.one_in(12, always=False)
def test_a_busy_run_is_told(home: Path) -> None:
    with started(home, *slow_run(home, "sleeping", "busy")) as process:
        until((home / "begun").exists, "a model is asked")
        other = sop(home, "resume", "busy")
        seen = sop(home, "runs").stdout
        shown = sop(home, "show", "busy")
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    assert other.returncode == 2 and f"open in process {process.pid}" in other.stderr and other.stderr.count("\n") == 1
    assert re.search(r"^busy +slow\.yaml +running", seen, re.MULTILINE)
    assert shown.returncode == 0 and "state    running" in shown.stdout and "sop resume" not in shown.stdout


# -- where it prints to

@pytest.mark.one_in(3)
@pytest.mark.parametrize("words", ["log done", "show done", "runs", "log done --full", "check looped.yaml", "graph looped.yaml",
                                   "run slow.yaml --model dry --name piped", "schema", "--help"])
def test_a_reader_that_has_gone_is_no_error(home: Path, words: str) -> None:
    with subprocess.Popen([*SOP, *words.split()], cwd=home, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
        assert (process.wait(PATIENCE), told) == (0, b"")


@pytest.mark.one_in(4)
def test_an_invalid_sop_ends_with_2_also_for_a_reader_that_has_gone(home: Path) -> None:
    (home / "wrong.yaml").write_text("sop: wrong\nsteps: {a: {rolle: b}}\n")
    with subprocess.Popen([*SOP, "check", *["wrong.yaml"] * 99], cwd=home, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 2


@pytest.mark.one_in(4)
def test_no_stdout_at_all(home: Path) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *SOP, "runs"], cwd=home, env=environment(), capture_output=True,
                          check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.one_in(4)
def test_a_terminal_without_unicode_gets_ascii(home: Path) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = sop(home, "graph", "looped.yaml", env=env)
    assert done.returncode == 0 and "judge_it (loop) role critic" in done.stdout and "draft -> verdict" in done.stdout


@pytest.mark.one_in(4)
def test_an_unwritable_workspace_is_told(home: Path) -> None:
    done = sop(home, "run", "slow.yaml", "--model", "dry", "--workspace", "/proc/nothing")
    assert done.returncode == 1 and done.stderr.startswith("sop: can't ") and done.stderr.count("\n") == 1


# -- at a terminal

class Terminal:
    """A command at a terminal of its own: `screen` is all that it wrote so far, without control sequences."""

    def __init__(self, folder: Path, *words: str, columns: int = 100, rows: int = 30, env: dict[str, str] | None = None) -> None:
        self.raw = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(SOP[0], [*SOP, *words], environment({"TERM": "xterm-256color", **(env or {})}))

    @property
    def screen(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r", "")

    def read_until(self, text: str) -> None:
        until(lambda: self._read() or text in self.screen, f"{text!r} on the screen:\n{self.screen}")

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def ended(self) -> int:
        """Its exit status, once it ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._read()
                os.close(self._fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"it does not end; on the screen:\n{self.screen}")

    def _read(self) -> None:
        while select.select([self._fd], [], [], 0.02)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:                 # Linux's word for the end of a terminal
                return
            self.raw += data.decode("utf-8", "replace")


@pytest.mark.one_in(8)
def test_the_live_view_shows_items_and_who_waits_for_whom(home: Path) -> None:
    seen = Terminal(home, *slow_run(home, "quick", "live"))
    assert seen.ended() == 0
    assert "● write" in seen.screen and re.search(r"● write +\d/8 items, ", seen.screen)
    assert re.search(r"● [a-d] +0\.\d s", seen.screen) and "items waiting" in seen.screen
    assert "○ bind   waits for parts (write)" in seen.screen and "calls 4" in seen.screen
    assert seen.raw.count("\x1b[?25l") == seen.raw.count("\x1b[?25h") == 1, "the cursor comes back"
    ending = seen.screen[seen.screen.rindex("live: success"):]
    assert "in workspace/live/" in ending and "bind@1   book.md" in ending and "\x1b[32;1msuccess" in seen.raw


@pytest.mark.one_in(16, always=False)
def test_answers_are_streamed_where_somebody_looks(home: Path) -> None:
    """On a terminal the board shows how an answer grows and its last words; elsewhere it is streamed too, and not shown."""
    (home / "asked.yaml").write_text("sop: asked\nroles: {poet: {profile: You write.}}\nartifacts: {poem: {}}\n"
                                     "steps: {sing: {role: poet, makes: poem, task: Sing.}}\noutputs: [poem]\n")
    answer = "The moon\nis \x1b[2Jup. " * 20 + "And so to bed."
    with OpenAIServer(lambda _: answer, plan=lambda _: "slowly").in_thread() as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-none"}
        seen = Terminal(home, "run", "asked.yaml", "--model", "openai:m", "--name", "watched", env=environment)
        assert seen.ended() == 0, seen.screen
        piped = sop(home, "run", "asked.yaml", "--model", "openai:m", "--name", "unwatched", env=environment)
        assert piped.returncode == 0, piped.stderr
        assert [bool(bill.request.get("stream")) for bill in server.bills] == [True, True]
    assert re.search(r"● sing +\d\.\d s, 414 characters  .*is ␛\[2Jup\. And so to bed\.\n", seen.screen), seen.screen
    assert "\x1b[2Jup" not in seen.raw
    assert sop(home, "show", "watched", "poem").stdout == sop(home, "show", "unwatched", "poem").stdout == answer + "\n"


@pytest.mark.one_in(16)
def test_colours_stay_away_where_they_are_not_wanted(home: Path) -> None:
    plain = Terminal(home, "check", "looped.yaml", env={"NO_COLOR": "1"})
    assert plain.ended() == 0 and "\x1b[3" not in plain.raw
    coloured = Terminal(home, "check", "looped.yaml")
    assert coloured.ended() == 0 and "\x1b[32;1mok" in coloured.raw
    dumb = Terminal(home, "run", "slow.yaml", "--model", "dry", "--name", "dumb", env={"TERM": "dumb"})
    assert dumb.ended() == 0 and "\x1b" not in dumb.raw and "run: ends: success" in dumb.screen


@pytest.mark.one_in(24)
@pytest.mark.parametrize("columns", [72, 80, 120])
def test_reports_fit_the_terminal(home: Path, columns: int) -> None:
    for words in (("show", "done"), ("graph", "looped.yaml"), ("check", "looped.yaml"), ("runs",), ("log", "done")):
        seen = Terminal(home, *words, columns=columns)
        assert seen.ended() == 0
        too_long = [line for line in seen.screen.splitlines() if len(line) > columns]
        # A word that is longer than the line (a path, a command to copy) is left whole.
        assert not [line for line in too_long if len(line.split()) > 3], too_long


def test_escape_sequences_of_others_do_nothing(home: Path) -> None:
    seen = Terminal(home, "log", "done", "--kind", "failed", columns=200)
    assert seen.ended() == 0 and "no ␛[31mink" in seen.screen and "\x1b[31mink" not in seen.raw


@pytest.mark.one_in(6)
def test_missing_inputs_are_asked_for(home: Path) -> None:
    seen = Terminal(home, "run", "looped.yaml", "--model", "dry", "--name", "asked", "--until", "write_it")
    seen.read_until("topic (What to write about): ")
    seen.type("\n")
    seen.read_until("it is required")
    seen.type("green tea\n")
    assert seen.ended() == 0
    assert sop(home, "show", "asked", "topic").stdout == "green tea\n"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_a_question_can_be_left(home: Path, key: str) -> None:
    seen = Terminal(home, "run", "looped.yaml", "--model", "dry")
    seen.read_until("topic (What to write about): ")
    seen.type(key)
    assert seen.ended() == 130 and "Traceback" not in seen.screen


@pytest.mark.one_in(4)
def test_ctrl_c_at_the_live_view(home: Path) -> None:
    seen = Terminal(home, *slow_run(home, "deaf", "live-c"))
    until((home / "begun").exists, "a model is asked")
    seen.read_until("● write")
    seen.type("\x03")
    seen.read_until("stopping… (again to kill)")
    seen.type("\x03")
    assert seen.ended() == 130 and seen.raw.count("\x1b[?25l") == seen.raw.count("\x1b[?25h") == 1


# -- what it costs

LIGHT = {"metaflow_agents", "typer", "annotated_doc", "shellingham"}
TYPED = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}


@pytest.mark.one_in(8, always=False)
def test_what_only_some_commands_need_is_loaded_by_them(home: Path) -> None:
    """What starting costs is a row of `benchmarks/engine.py`; what decides it is what is loaded."""
    script = ("import sys; sys.argv[0] = 'sop'\nbefore = set(sys.modules)\nfrom metaflow_agents.cli import command\n"
              "status = command(sys.argv[1:])\n"
              "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
              "print(sorted(new - set(sys.stdlib_module_names) | new & {'asyncio', 'sqlite3', 'ssl', 'multiprocessing'}))")
    reading = {*TYPED, "yaml", "jinja2", "markupsafe"}
    for words, allowed in ((["--help"], set()), (["check", "looped.yaml"], reading), (["run", "--help"], reading),
                           (["check", "design_first.yaml"], reading), (["log", "done"], {*TYPED, "sqlite3"})):
        done = subprocess.run([sys.executable, "-c", script, *words], cwd=home, env=environment(), capture_output=True, text=True,
                              check=True)
        loaded = {name for name in re.findall(r"'(\w+)'", done.stdout.splitlines()[-1]) if "cython" not in name}
        assert loaded <= {*LIGHT, *allowed}, (words, loaded - LIGHT - allowed)


@pytest.mark.one_in(12, always=False)
def test_a_strategy_is_loaded_by_the_sops_that_think_by_it(home: Path) -> None:
    """And the planner's language with the one that needs it."""
    script = ("import re, sys; sys.argv[0] = 'sop'\nfrom metaflow_agents.cli import command\nstatus = command(sys.argv[1:])\n"
              "print(sorted(name for name in sys.modules\n"
              "    if re.search(r'metaflow_agents\\.(planning|memory\\.indexes|\\w+\\.strategies\\.)', name)))\nsys.exit(status)")
    apart = {"memory.indexes", "memory.indexes.port",           # names of indexes: none of their libraries
             "schema.strategies.base", "schema.strategies.workers", "agent.strategies.port", "agent.strategies.lasting"}
    looped = (home / "looped.yaml").read_text()
    (home / "spoken.yaml").write_text(looped.replace("role: ", "strategy: chain_of_thought, role: ", 1))
    run = ["--model", "python:desk.py:answer", "--topic", "tea"]
    for file, strategies in (("looped.yaml", {"single"}), ("spoken.yaml", {"single", "chain_of_thought"})):
        for words, rooms in ((["check", file], {"schema"}), (["run", file, *run], {"schema", "agent"})):
            done = subprocess.run([sys.executable, "-c", script, *words], cwd=home, env=environment(), capture_output=True,
                                  text=True)
            assert done.returncode == 0, done.stderr
            loaded = set(re.findall(r"metaflow_agents\.([\w.]+)", done.stdout.splitlines()[-1])) - apart
            assert loaded == {f"{room}.strategies.{name}" for room in rooms for name in strategies}, words


@pytest.mark.one_in(8, always=False)
def test_tools_and_sandboxes_are_loaded_by_the_sops_that_have_some(home: Path) -> None:
    script = ("import re, sys; sys.argv[0] = 'sop'\nfrom metaflow_agents.cli import command\nstatus = command(sys.argv[1:])\n"
              "print(sorted(name for name in sys.modules if re.fullmatch(r'metaflow_agents\\.('\n"
              "    r'documents\\.(?!publishing$)\\w+|network\\.(?!hosts|addresses)\\w+|policy\\.policy|'\n"
              "    r'sandbox\\.(bubblewrap|unconfined)|'\n"
              "    r'tools\\.(commands|files|web))', name)))\n"
              "sys.exit(status)")
    plain = (home / "looped.yaml").read_text()
    (home / "tooled.yaml").write_text(re.sub(r"(\n  \w+: \{)(profile: )", r"\1tools: [read], \2", plain, count=1))
    loaded = {}
    for file in ("looped.yaml", "tooled.yaml"):
        done = subprocess.run([sys.executable, "-c", script, "run", file, "--model", "python:desk.py:answer", "--topic", "tea"],
                              cwd=home, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        loaded[file] = done.stdout.splitlines()[-1]
    assert loaded["looped.yaml"] == "[]" and "tools.files" in loaded["tooled.yaml"] and "sandbox." not in loaded["tooled.yaml"]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("shape", ["wide", "many", "deep"])
def test_log_and_show_tell_large_journals(shape: Shape, home: Path, tmp_path: Path) -> None:
    """How soon is a row of `benchmarks/worst.py`."""
    make_large_journal(tmp_path / "workspace" / ".journals" / "large.db", 5000, shape=shape, size=200)
    for word, lines in (("log", 15_000), ("show", 8)):
        done = sop(tmp_path, word, "large")
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) > lines
