"""`sop mcp` as a process of its own, spoken to by a real MCP client, and by plain lines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from cli_desk import SOP, environment, lay_out, sop
from jsonschema import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters
from mcp_desk import alive, gone, until

from metaflow_agents.api.mcp_server import Serving, parameters
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.runtime.prepared import Choices
from metaflow_agents.sop.load import load_sop

WAITED = 120.0                      # seconds
FILES = """
sop: files
inputs:
  text: {type: file, description: A text}
  pages: folder
  level: {type: low | high, default: low}
  people: {type: [{name: string, 'age?': integer}], default: []}
artifacts: {counted: {schema: {text: string, pages: integer}}}
steps: {count: {value: "{'text': text, 'pages': pages | length}", needs: [text, pages], makes: counted}}
"""
NOISY = """
sop: noisy
artifacts: {said: {}}
steps: {speak: {call: "speaking:speak", makes: said}}
"""
SPEAKING = '''
import os, subprocess, sys
def speak():
    print("on standard output")
    os.write(1, b"by its number\\n")
    subprocess.run([sys.executable, "-c", "print('from a child')"])
    return "said"
'''
SELF = """
sop: tree
inputs:
  root:
    type:
      $ref: '#/$defs/node'
      $defs: {node: {type: object, properties: {inner: {type: array, items: {$ref: '#/$defs/node'}}}}}
artifacts: {same: {}}
steps: {copy: {value: root, needs: [root], makes: same}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = lay_out(tmp_path_factory.mktemp("served"))
    for name, text in {"files.yaml": FILES, "noisy.yaml": NOISY, "speaking.py": SPEAKING, "tree.yaml": SELF}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@asynccontextmanager
async def client(folder: Path, *words: str) -> AsyncIterator[Client]:
    reached = StdioServerParameters(command=SOP[0], args=[*SOP[1:], "mcp", *words], env=environment(), cwd=folder)
    async with Client(reached) as talking:
        yield talking


@contextmanager
def spoken_to(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command after the handshake, its pipes in our hands. Where it keeps us waiting, it is killed and the pipes end."""
    with subprocess.Popen([*SOP, "mcp", *words], cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        impatience = Timer(WAITED, process.kill)
        impatience.start()
        try:
            say(process, 1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
            assert process.stdout is not None and json.loads(process.stdout.readline())["result"]["serverInfo"]["version"]
            say(process, None, "notifications/initialized")
            yield process
        finally:
            impatience.cancel()
            process.kill()


def say(process: subprocess.Popen[str], id_: int | None, method: str, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if id_ is None else {"id": id_})}
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


@pytest.mark.one_in(8)
async def test_a_sop_is_a_tool(home: Path) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        told.append((count, message))

    async with client(home, "looped.yaml", "--model", "python:desk.py:answer", "--workspace", "served") as talking:
        (tool,) = (await talking.list_tools()).tools
        assert (tool.name, tool.description) == ("looped", "A text, judged and mended until it holds.")
        assert tool.input_schema == {
            "type": "object", "required": ["topic"], "additionalProperties": False, "properties": {
                "topic": {"type": "string", "description": "What to write about"},
                "word_count": {"type": "integer", "description": "How long", "default": 20}}}
        made = await talking.call_tool("looped", {"topic": "tea"}, progress_callback=progress)
        assert not made.is_error and made.structured_content["outputs"]["whole"]["title"] == "tea"
        assert json.loads(text_of(made)) == made.structured_content["outputs"]
        assert [count for count, _ in told] == [*range(1, len(told) + 1)] and len(told) > 10
        assert (2, "write_it@1: starts on topic@1, word_count@1") in told
        assert not [message for _, message in told if "\x1b" in str(message)]
        wrong = await talking.call_tool("looped", {"topik": "tea"})
        assert wrong.is_error and "did you mean `topic`?" in text_of(wrong)
        with pytest.raises(MCPError, match="there is no tool `loop`; there is: looped"):
            await talking.call_tool("loop", {})
    assert sop(home, "show", made.structured_content["run"], "--workspace", "served").returncode == 0


@pytest.mark.one_in(8, always=False)
async def test_two_calls_are_two_runs(home: Path) -> None:
    async with client(home, "looped.yaml", "--model", "python:desk.py:answer") as talking:
        made = await asyncio.gather(*(talking.call_tool("looped", {"topic": topic}) for topic in ("tea", "rain")))
    assert [one.structured_content["outputs"]["whole"]["title"] for one in made] == ["tea", "rain"]
    assert len({one.structured_content["run"] for one in made}) == 2


@pytest.mark.one_in(8, always=False)
async def test_files_and_folders_are_paths(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    async with client(home, "files.yaml", "--root", str(tmp_path)) as talking:
        (tool,) = (await talking.list_tools()).tools
        fields = tool.input_schema["properties"]
        assert fields["text"] == {"type": "string",
                                  "description": "A text; the path of a file, on the machine where the SOP runs "
                                                 f"(below {tmp_path})"}
        assert fields["pages"]["description"].startswith("the path of a folder") and fields["level"]["enum"] == ["low", "high"]
        made = await talking.call_tool("files", {"text": str(tmp_path / "a.txt"), "pages": str(tmp_path)})
        assert made.structured_content["outputs"] == {"counted": {"text": "hello", "pages": 1}}
        made = await talking.call_tool("files", {"text": "a.txt", "pages": "."})
        assert made.structured_content["outputs"] == {"counted": {"text": "hello", "pages": 1}}
        absent = await talking.call_tool("files", {"text": "nowhere.txt", "pages": str(tmp_path)})
        assert absent.is_error and f"can't read {tmp_path}/nowhere.txt" in text_of(absent)


@pytest.mark.one_in(12)
async def test_a_client_gets_no_file_of_the_user(home: Path, tmp_path: Path) -> None:
    """The environment of the server holds the key of the model; a pipe that nobody writes to would keep it waiting."""
    os.mkfifo(tmp_path / "pipe")
    for words, wrong, told in (((), "a.txt", "reads no files for its clients"),
                               (("--root", str(tmp_path)), "/proc/self/environ", "is not below the folder of this server"),
                               (("--root", str(tmp_path)), "pipe", "is no regular file")):
        async with client(home, "files.yaml", *words) as talking:
            made = await talking.call_tool("files", {"text": wrong, "pages": "."})
            assert made.is_error and told in text_of(made)
    told = sop(home, "mcp", "files.yaml", "--root", "nowhere")
    assert told.returncode == 2 and "`--root nowhere`: it is not there" in told.stderr


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize(("words", "label"), [((), "the input topic"), (("--trust-inputs",), "")])
async def test_what_a_client_says_is_untrusted(home: Path, tmp_path: Path, words: tuple[str, ...], label: str) -> None:
    async with client(home, "looped.yaml", "--model", "python:desk.py:answer", "--workspace", str(tmp_path), *words) as talking:
        made = await talking.call_tool("looped", {"topic": "tea"})
    state = Journal.read(journal_path(tmp_path, made.structured_content["run"])).state
    assert state.untrusted("topic") == label
    assert state.untrusted("word_count") == "", "its default is the SOP's own"


@pytest.mark.one_in(6)
async def test_a_run_without_success_says_why(home: Path) -> None:
    async with client(home, "looped.yaml", "--model", "python:desk.py:stubborn") as talking:
        told = await talking.call_tool("looped", {"topic": "tea"})
        name = told.structured_content["run"]
        assert told.is_error and told.structured_content["outcome"] == "failure"
        assert f"the run {name} of looped finished without success" in text_of(told) and f"`sop show {name}`" in text_of(told)
    async with client(home, "looped.yaml", "--model", "python:desk.py:answer", "--budget", "calls=1") as talking:
        told = await talking.call_tool("looped", {"topic": "tea"})
        assert told.is_error and told.structured_content["outcome"] == "budget" and "calls" in text_of(told)


@pytest.mark.one_in(6)
async def test_without_a_model(home: Path) -> None:
    async with client(home, "looped.yaml") as talking:
        told = await talking.call_tool("looped", {"topic": "tea"})
        assert told.is_error and "--model" in text_of(told)
    async with client(home, "looped.yaml", "--model", "manual") as talking:
        told = await talking.call_tool("looped", {"topic": "tea"})
        assert told.is_error and "`manual:FOLDER`" in text_of(told)


@pytest.mark.one_in(8, always=False)
async def test_nothing_but_the_protocol_on_standard_output(home: Path) -> None:
    with spoken_to(home, "noisy.yaml") as process:
        say(process, 2, "tools/call", name="noisy", arguments={})
        assert process.stdin is not None
        while json.loads(line := process.stdout.readline()).get("id") != 2:  # type: ignore[union-attr]
            pass
        assert json.loads(line)["result"]["structuredContent"]["outputs"] == {"said": "said"}
        process.stdin.close()
        assert process.wait(30) == 0
        assert process.stdout.read() == ""  # type: ignore[union-attr]
        heard = process.stderr.read()  # type: ignore[union-attr]
        assert all(words in heard for words in ("on standard output", "by its number", "from a child"))


@pytest.mark.one_in(8, always=False)
async def test_a_call_that_is_called_off_stops_its_run(home: Path) -> None:
    (home / "begun").unlink(missing_ok=True)
    with spoken_to(home, "slow.yaml", "--model", "python:slow_desk.py:sleeping", "--workspace", "off") as process:
        say(process, 2, "tools/call", name="slow", arguments={})
        await until((home / "begun").exists)
        say(process, None, "notifications/cancelled", requestId=2)
        await until(lambda: "interrupted" in sop(home, "runs", "--workspace", "off").stdout)
        say(process, 3, "tools/list")
        while json.loads(process.stdout.readline()).get("id") != 3:  # type: ignore[union-attr]
            pass


@pytest.mark.one_in(12)
@pytest.mark.parametrize("how", ["the client goes", signal.SIGTERM, signal.SIGINT])
async def test_the_end_leaves_runs_in_order(how: Any, home: Path, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with spoken_to(home, "command.yaml", "--sandbox", "none", "--workspace", str(tmp_path)) as process:
        say(process, 2, "tools/call", name="command", arguments={"file": str(note)})
        await until(lambda: note.exists() and note.read_text())
        assert alive(int(note.read_text()))
        if how == "the client goes":
            assert process.stdin is not None
            process.stdin.close()
        else:
            os.kill(process.pid, how)
        assert process.wait(30) == (0 if how == "the client goes" else 130)
        assert await gone(int(note.read_text()))
    assert "interrupted" in sop(home, "runs", "--workspace", str(tmp_path)).stdout


@pytest.mark.one_in(8, always=False)
def test_a_broken_sop_is_told_before_anything_is_served(home: Path) -> None:
    (home / "broken.yaml").write_text("sop: broken\nsteps: {a: {value: nobody, makes: b}}\n", encoding="utf-8")
    told = sop(home, "mcp", "broken.yaml")
    assert (told.returncode, told.stdout) == (2, "") and "nothing was run" in told.stderr
    told = sop(home, "mcp", "absent.yaml")
    assert told.returncode == 2 and "Traceback" not in told.stderr


def test_definitions_of_inputs_keep_apart(home: Path) -> None:
    schema = parameters(load_sop(home / "tree.yaml").program)
    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    assert check.is_valid({"root": {"inner": [{"inner": []}]}}) and not check.is_valid({"root": {"inner": [{"inner": 5}]}})


def test_a_run_that_waits_names_the_inbox(home: Path) -> None:
    result = RunResult("monday", "waiting", "1: sign? (`sop inbox monday` shows it)", {}, None, 0, 0, 0.0, 0)
    serving = Serving.of(str(home / "looped.yaml"), Choices(home=Path("there")))
    told = serving._why(result)
    assert "waits for a person: 1: sign?\n`sop inbox --workspace there`" in told
    assert "`sop answer monday --workspace there`" in told
    assert "`sop resume monday --workspace there`" in told


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("cap", "told"), [
    ("call=1", "did you mean `calls`"), ("calls=many", "is not a count"), ("nowhere/calls=1", "there is no step `nowhere`")])
def test_a_wrong_cap_is_refused_when_the_server_starts(home: Path, cap: str, told: str) -> None:
    done = sop(home, "mcp", "looped.yaml", "--budget", cap)
    assert done.returncode == 2 and told in done.stderr, done.stderr


@pytest.mark.one_in(4)
def test_help_does_not_pay_for_it() -> None:
    script = ("import sys; sys.argv[0] = 'sop'\nfrom metaflow_agents.cli import command\ncommand(['mcp', '--help'])\n"
              "print([m for m in ('mcp', 'mcp_types', 'anyio', 'starlette', 'asyncio', 'jsonschema') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
