"""The loop of tool calls: checked, decided, journalled, carried out, told; what the tools write; what is cut; how it ends."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from metaflow_agents import run, start
from metaflow_agents.cli import command
from metaflow_agents.journal.projection import outline
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.schema.caps import TOOL_TURNS
from metaflow_agents.schema.event import Decided, Done, Intended

TEXT = """
sop: tooled
inputs: {topic: string}
roles: {worker: {profile: a worker, tools: [TOOLS]}}
artifacts: {note: {file: note.md}}
steps:
  work: {role: worker, needs: [topic], makes: note, task: "Write about {{ topic }}."}
"""
FILES = """
sop: filing
inputs: {topic: string}
roles: {worker: {profile: a worker, tools: [TOOLS]}}
artifacts: {source: {files: "src/**"}}
steps:
  work: {role: worker, needs: [topic], makes: source, task: "Write about {{ topic }}."}
"""


def sop(folder: Path, text: str, has: str, **more: str) -> Path:
    path = folder / "tooled.yaml"
    path.write_text(textwrap.dedent(text).replace("TOOLS", has) + "".join(f"{key}: {value}\n" for key, value in more.items()))
    return path


def calls(*wanted: tuple[str, Any]) -> Reply:
    return Reply(text="", calls=tuple(ToolCall(id=f"c{number}", name=name, arguments=arguments)
                                      for number, (name, arguments) in enumerate(wanted)))


class Script:
    """A model that says one thing after the other, and keeps what it was sent."""

    def __init__(self, *turns: Reply | str | Callable[[ModelRequest], Any]) -> None:
        self.turns, self.sent = list(turns), list[ModelRequest]()

    def __call__(self, request: ModelRequest) -> Any:
        turn = self.turns[len(self.sent)]
        self.sent.append(request)
        return turn(request) if callable(turn) else turn

    def results(self, turn: int) -> list[str]:
        """What the model was told of its calls before a turn."""
        return [message["content"] for message in self.sent[turn].messages if message["role"] == "tool"]


async def test_a_call_is_made_told_and_journalled(tmp_path: Path) -> None:
    model = Script(calls(("list", {})), "done")
    async with start(sop(tmp_path, TEXT, "list"), topic="x", model=model, workspace=tmp_path / "w") as going:
        result = await going.result()
        events = [event for _, event in going.journal.events(Intended, Done)]
    assert result.ok and result["note"] == "done"
    assert [tool["name"] for tool in model.sent[0].tools] == ["list"]
    assert model.results(1) == ["no file matches `**`; there are 0 files in all"]
    assert [request.key for request in model.sent] == ["work@1~0/turn.0", "work@1~0/turn.1"]
    assert [event.key for event in events] == ["work@1~0/turn.0/tool.0"] * 2


@pytest.mark.parametrize(("name", "arguments", "told"), [
    ("reed", {"path": "a"}, "there is no tool `reed`: did you mean `read`?"),
    ("read", {}, "`path` is missing; expected a text"),
    ("read", {"path": 3}, "`path` is 3; expected a text"),
    ("read", {"path": "a", "lines": "many"}, '`lines` is "many"; expected a whole number'),
    ("read", {"pth": "a"}, "`pth` is no argument of this tool: did you mean `path`?"),
    ("read", "{broken", "the arguments are no JSON object: Expecting property name"),
    ("read", {"path": "src/absent.py"}, "there is no file `src/absent.py`"),
])
async def test_a_wrong_call_is_told_how_to_be_right(tmp_path: Path, name: str, arguments: Any, told: str) -> None:
    model = Script(calls((name, arguments)), "done")
    assert (await run(sop(tmp_path, TEXT, "read"), topic="x", model=model, workspace=None)).ok
    assert told in model.results(1)[0]


async def test_files_by_tools_become_the_artifact(tmp_path: Path) -> None:
    model = Script(calls(("write", {"path": "src/a.py", "text": "a = 1\n"}), ("write", {"path": "src/b.py", "text": "b = 1\n"}),
                         ("edit", {"path": "src/a.py", "search": "1", "replace": "2"})),
                   calls(("read", {"path": "src/a.py"}), ("search", {"expression": "= [0-9]"}),
                         ("list", {"pattern": "src/*.py"})),
                   "two files")
    result = await run(sop(tmp_path, FILES, "read, write, edit, list, search"), topic="x", model=model, workspace=None)
    assert result["source"] == {"src/a.py": "a = 2\n", "src/b.py": "b = 1\n"}
    assert model.results(2)[3:] == ["a = 2\n", "src/a.py:1: a = 2\nsrc/b.py:1: b = 1\n", "src/a.py (6)\nsrc/b.py (6)\n"]


async def test_the_tool_edits_as_blocks_do(tmp_path: Path) -> None:
    """A text to the letter anywhere, else lines but for white space; what stands nowhere is told with the nearest lines."""
    text = "def f():\n    a = 1\n    b = 2\n"
    model = Script(calls(("write", {"path": "src/a.py", "text": text}),
                         ("edit", {"path": "src/a.py", "search": "= 1\n", "replace": "= 7\n"}),
                         ("edit", {"path": "src/a.py", "search": "a=7\nb=2\n", "replace": "a=7\nc = 3\n"}),
                         ("edit", {"path": "src/a.py", "search": "    b = 3", "replace": "x"}),
                         ("edit", {"path": "src/a.py", "search": " = ", "replace": "x"})), "done")
    result = await run(sop(tmp_path, FILES, "write, edit"), topic="x", model=model, workspace=None)
    assert result["source"] == {"src/a.py": "def f():\n    a = 7\n    c = 3\n"}
    assert model.results(1)[1:] == [
        "`src/a.py` is changed at line 2",
        "`src/a.py` is changed at line 2: `search` fits there but for white space and quotation marks",
        "`src/a.py`: `search` is not in the file; nearest, at its line 3:\n    c = 3",
        "`search` stands 2 times in `src/a.py`: add lines around it until it stands there once"]


async def test_a_block_goes_before_what_a_tool_wrote(tmp_path: Path) -> None:
    model = Script(calls(("write", {"path": "src/a.py", "text": "tool"}), ("write", {"path": "src/b.py", "text": "tool"})),
                   "=== edit: src/a.py ===\n<<<<<<< SEARCH\ntool\n=======\nblock\n>>>>>>> REPLACE\n=== end ===\n"
                   "=== delete: src/b.py ===")
    result = await run(sop(tmp_path, FILES, "write"), topic="x", model=model, workspace=None)
    assert result["source"] == {"src/a.py": "block"}


CHECKED = FILES.replace("makes: source", "makes: source, sees: [source], check: {call: 'fns:fine'}").replace(
    '"src/**"', '"src/**", initial: {src/a.py: "a = 1\\n"}') + "outputs: [source]\n"
FINE = "def fine(source):\n    return None if 'fine' in ''.join(source.values()) else 'not fine'\n"


def block(path: str, text: str) -> str:
    return f"=== file: {path} ===\n{text}\n=== end ===\n"


async def test_after_a_check_tools_read_what_stands_of_the_answer(tmp_path: Path) -> None:
    (tmp_path / "fns.py").write_text(FINE)
    look = calls(("read", {"path": "src/a.py"}), ("list", {}))
    edit = "=== edit: src/b.py ===\n<<<<<<< SEARCH\nb = 2\n=======\nb = 3  # fine\n>>>>>>> REPLACE\n=== end ===\n"
    model = Script(look, block("src/a.py", "a = 2") + block("src/b.py", "b = 2"), look, "=== undo: src/a.py ===\n", look, edit)
    result = await run(sop(tmp_path, CHECKED, "read, list"), topic="x", model=model, workspace=None)
    assert result.ok and result["source"] == {"src/a.py": "a = 1\n", "src/b.py": "b = 3  # fine\n"}
    assert model.results(1) == ["a = 1\n", "src/a.py (6)\n"]
    assert model.results(3)[2:] == ["a = 2\n", "src/a.py (6)\nsrc/b.py (6)\n"]
    assert model.results(5)[4:] == ["a = 1\n", "src/a.py (6)\nsrc/b.py (6)\n"]


async def test_where_nothing_stands_any_more_tools_read_the_files_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "fns.py").write_text(FINE)
    look = calls(("read", {"path": "src/a.py"}))
    model = Script(block("src/a.py", "a = 2"), look, "=== undo: src/a.py ===\n" + block("lib/x", "x"), look,
                   block("src/b.py", "fine"))
    result = await run(sop(tmp_path, CHECKED, "read"), topic="x", model=model, workspace=None)
    assert result.ok and result["source"] == {"src/a.py": "a = 1\n", "src/b.py": "fine\n"}
    assert model.results(2) == ["a = 2\n"] and model.results(4)[-1] == "a = 1\n"


async def test_what_tools_write_after_a_check_goes_over_the_answer_before_it(tmp_path: Path) -> None:
    """Where tools write, each answer is whole: the last one counts."""
    (tmp_path / "fns.py").write_text(FINE)
    model = Script(block("src/b.py", "b = 2"), calls(("write", {"path": "src/b.py", "text": "fine"})), "done")
    result = await run(sop(tmp_path, CHECKED, "write"), topic="x", model=model, workspace=None)
    assert result.ok and result["source"] == {"src/a.py": "a = 1\n", "src/b.py": "fine"}
    assert "in full" in str(model.sent[1].messages[-1]["content"])


@pytest.mark.parametrize(("path", "told"), [
    ("elsewhere.py", "outside of what this step makes: src/**"), ("../out", "is refused"), ("src/../../etc/passwd", "is refused"),
    ("/etc/passwd", "is refused"), (".git/config", "not allowed"), ("src/.git/hooks/x", "not allowed"),
])
async def test_what_lies_outside_is_not_written(tmp_path: Path, path: str, told: str) -> None:
    model = Script(calls(("write", {"path": path, "text": "x"})), calls(("write", {"path": "src/a", "text": "x"})), "done")
    result = await run(sop(tmp_path, FILES, "write"), topic="x", model=model, workspace=None)
    assert set(result["source"]) == {"src/a"}
    said = model.results(1)[0]
    assert told in said or "is refused" in said or "not allowed" in said


async def test_what_is_cut_is_said_and_the_rest_is_there(tmp_path: Path) -> None:
    long = "".join(f"{number:07}\n" for number in range(3_000))
    model = Script(calls(("write", {"path": "src/a", "text": long})), calls(("search", {"expression": ".*", "pattern": "src/a"}),
                                                                         ("read", {"path": "src/a"})),
                   lambda request: calls(("more", {"call": "turn.1/tool.1", "from": 12_000})), "done")
    assert (await run(sop(tmp_path, FILES, "write, read, search"), topic="x", model=model, workspace=None)).ok
    read = model.results(2)[2]
    assert "characters are left out here" in read and '`more` with `call` "turn.1/tool.1"' in read and len(read) < 17_000
    whole = "[lines 1 to 2000 of 3000]\n" + long[:16_000]
    assert model.results(3)[3].startswith(whole[12_000:12_020])
    assert "more" in [tool["name"] for tool in model.sent[2].tools]
    assert "more" not in [tool["name"] for tool in model.sent[1].tools]


async def test_a_denied_action_is_not_done_and_told(tmp_path: Path) -> None:
    model = Script(calls(("write", {"path": "src/a", "text": "x"}), ("write", {"path": "src/b", "text": "x"})), "done")
    async with start(sop(tmp_path, FILES, "write", policy='{deny: ["write(src/a)"]}'), topic="x", model=model,
                     workspace=tmp_path / "w") as going:
        result = await going.result()
        decided = [event for _, event in going.journal.events(Decided)]
    assert set(result["source"]) == {"src/b"}
    assert "is not allowed" in model.results(1)[0] and "write(src/a)" in model.results(1)[0]
    assert [(event.action, event.verdict) for event in decided] == [("write(src/a)", "deny"), ("write(src/b)", "allow")]
    assert all(event.rule and event.chain for event in decided)


async def test_what_may_not_be_read_is_not_there(tmp_path: Path) -> None:
    model = Script(calls(("write", {"path": "src/open", "text": "x"}), ("write", {"path": "src/shut", "text": "secret"})),
                   calls(("list", {}), ("search", {"expression": "secret"}), ("read", {"path": "src/shut"})), "done")
    result = await run(sop(tmp_path, FILES, "write, list, read, search", policy='{deny: ["read(src/shut)"]}'), topic="x",
                       model=model, workspace=None)
    assert set(result["source"]) == {"src/open", "src/shut"}
    listed, found, read = model.results(2)[2:]
    assert "shut" not in listed and "in none of 1 files" in found and "not allowed" in read


async def test_turns_have_an_end(tmp_path: Path) -> None:
    def turn(request: ModelRequest) -> Any:
        return calls(("list", {})) if request.tools else "enough"

    model = Script(*[turn] * (TOOL_TURNS + 1))
    result = await run(sop(tmp_path, TEXT, "list"), topic="x", model=model, workspace=None)
    assert result["note"] == "enough" and len(model.sent) == TOOL_TURNS + 1
    assert "there are no more" in str(model.sent[-1].messages[-1]["content"])


async def test_a_repair_knows_what_the_tools_said(tmp_path: Path) -> None:
    text = TEXT.replace("note: {file: note.md}", "note: {schema: {n: integer}}")
    model = Script(calls(("list", {})), '{"n": "x"}', '{"n": 1}')
    result = await run(sop(tmp_path, text, "list"), topic="x", model=model, workspace=None)
    assert result["note"] == {"n": 1}
    assert [message["role"] for message in model.sent[2].messages][-5:] == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_step_chooses_its_tools(tmp_path: Path) -> None:
    path = sop(tmp_path, TEXT.replace("makes: note,", "makes: note, tools: [search],"), "list, read")
    model = Script("done")
    assert (await run(path, topic="x", model=model, workspace=None)).ok
    assert [tool["name"] for tool in model.sent[0].tools] == ["search"]


async def test_a_role_starts_another_within_its_own_bounds(tmp_path: Path) -> None:
    path = sop(tmp_path, FILES.replace("roles: {", "roles: {helper: {profile: helps, tools: [write, read]}, "),
               "start_role, write", policy='{preset: workspace}')
    path.write_text(path.read_text().replace("tools: [start_role, write]}",
                                             "tools: [start_role, write], policy: {deny: ['write(src/no)']}}"))
    sent: list[ModelRequest] = []

    def model(request: ModelRequest) -> Any:
        sent.append(request)
        if request.role == "helper":
            return calls(("write", {"path": "src/no", "text": "x"}), ("write", {"path": "src/yes", "text": "x"})) \
                if not any(message["role"] == "tool" for message in request.messages) else "I wrote one"
        told = [message for message in request.messages if message["role"] == "tool"]
        return "both done" if told else calls(("start_role", {"role": "helper", "task": "write two files"}))

    result = await run(path, topic="x", model=model, workspace=None)
    assert set(result["source"]) == {"src/yes"}
    assert [request.key for request in sent] == ["work@1~0/turn.0", "work@1~0/turn.0/tool.0/turn.0",
                                                 "work@1~0/turn.0/tool.0/turn.1", "work@1~0/turn.1"]
    assert "write two files" in str(sent[1].messages)


def _tool(name: str) -> str:
    return f"    {name}: {{python: 'funcs:{name}'}}\n"


async def test_many_tools_are_searched_for(tmp_path: Path) -> None:
    names = [f"unit_{number}" for number in range(30)]
    (tmp_path / "funcs.py").write_text("".join(
        f'def {name}(value: float) -> float:\n    """Convert {"furlongs" if name == "unit_17" else "things"} {number}."""\n'
        "    return value\n"
        for number, name in enumerate(names)))
    path = sop(tmp_path, TEXT, ", ".join(names))
    path.write_text(path.read_text() + "tools:\n" + "".join(_tool(name)[2:] for name in names))
    model = Script(calls(("find_tools", {"query": "convert furlongs"})), calls(("unit_17", {"value": 2.5})), "done")
    assert (await run(path, topic="x", model=model, workspace=None)).ok
    assert [tool["name"] for tool in model.sent[0].tools] == ["find_tools"]
    assert "unit_17" in [tool["name"] for tool in model.sent[1].tools] and len(model.sent[1].tools) < 10
    assert model.results(2)[1] == "2.5"


async def test_functions_are_called_with_their_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIT_KEY", "hunter2-key")
    (tmp_path / "funcs.py").write_text('def convert(value: float, key: str) -> str:\n    """Convert."""\n'
                                       '    return f"{value} with {key}"\n')
    path = sop(tmp_path, TEXT, "convert", secrets="[UNIT_KEY]",
               tools="{convert: {python: 'funcs:convert', secrets: {key: UNIT_KEY}}}")
    model = Script(calls(("convert", {"value": 1.0})), "done")
    async with start(path, topic="x", model=model, workspace=tmp_path / "w") as going:
        assert (await going.result()).ok
    assert model.results(1) == ["1.0 with [secret UNIT_KEY]"]
    assert "key" not in json.dumps([dict(tool) for tool in model.sent[0].tools])
    assert not [file for file in (tmp_path / "w").rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]


async def test_commands_run_in_the_sandbox_and_their_changes_are_kept(tmp_path: Path) -> None:
    code = "open('src/made.txt', 'w').write('x'); open('other.txt', 'w').write('y'); print(open('src/a').read())"
    model = Script(calls(("write", {"path": "src/a", "text": "hello"})),
                   calls(("run", {"command": ["python", "-c", code]})), "done")
    result = await run(sop(tmp_path, FILES, "write, run"), topic="x", model=model, workspace=None)
    assert result["source"] == {"src/a": "hello", "src/made.txt": "x"}
    told = model.results(2)[1]
    assert told.startswith("exit code 0\n") and "hello" in told
    assert "not kept: `other.txt`: outside of what this step makes" in told


async def test_the_scratch_interpreter_remembers(tmp_path: Path) -> None:
    model = Script(calls(("python", {"code": "x = 20"})), calls(("python", {"code": "x + 1"})),
                   calls(("python", {"code": "1/0"})), "done")
    assert (await run(sop(tmp_path, TEXT, "python"), topic="x", model=model, workspace=None)).ok
    assert "21" in model.results(2)[1] and "ZeroDivisionError" in model.results(3)[2]


def arguments_of(request: Mapping[str, Any]) -> Any:
    return request


async def test_staged_tools_only_tell(tmp_path: Path) -> None:
    (tmp_path / "funcs.py").write_text(f'def send(to: str) -> str:\n    """Send."""\n'
                                       f'    with open({str(tmp_path / "sent")!r}, "a") as file:\n'
                                       '        file.write(to)\n    return "sent"\n')
    path = sop(tmp_path, TEXT, "send, list", tools="{send: {python: 'funcs:send'}}")
    script = (calls(("send", {"to": "ann"}), ("list", {})), "done")
    model = Script(*script)
    assert (await run(path, topic="x", model=model, workspace=tmp_path / "w", name="real")).ok
    assert (tmp_path / "sent").read_text() == "ann" and model.results(1)[0] == "sent"
    model = Script(*script)
    assert (await run(path, topic="x", model=model, workspace=tmp_path / "w", name="staged", staged=True)).ok
    assert (tmp_path / "sent").read_text() == "ann"
    assert model.results(1)[0].startswith("staged: nothing was done. `call(send)`") and model.results(1)[1].startswith("no file")
    with RawJournal(tmp_path / "w" / ".journals" / "staged.db") as journal:
        found = outline(journal).staged
    assert found is not None and [(one.action, one.key) for one in found] == [("call(send)", "work@1~0/turn.0/tool.0")]


async def test_a_staged_run_looks_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "funcs.py").write_text("def find(to: str) -> str:\n    \"\"\"Find.\"\"\"\n    return f'{to} is found'\n")
    tools = "{find: {python: 'funcs:find', effect: none}, guess: {python: 'funcs:find', effect: idempotent}}"
    path = sop(tmp_path, TEXT, "find, guess", tools=tools)
    model = Script(calls(("find", {"to": "ann"}), ("guess", {"to": "bob"})), "done")
    assert (await run(path, topic="x", model=model, workspace=tmp_path / "w", name="staged", staged=True)).ok
    assert model.results(1)[0] == "ann is found" and model.results(1)[1].startswith("staged: nothing was done. `call(guess)`")
    with RawJournal(tmp_path / "w" / ".journals" / "staged.db") as journal:
        found = outline(journal)
    assert found.looked_up == ["call(find)"] and [one.action for one in found.staged or []] == ["call(guess)"]
    assert await asyncio.to_thread(command, ["show", "staged", "--workspace", str(tmp_path / "w")]) == 0
    told = capsys.readouterr().out
    assert "staged: looked up, since the SOP says that it changes nothing (`effect: none`):\n  call(find)" in told
    asking = sop(tmp_path, TEXT, "find", tools=tools, policy="{ask: ['call(find)']}")
    model = Script(calls(("find", {"to": "ann"})), "done")
    assert (await run(asking, topic="x", model=model, workspace=None, staged=True)).ok
    assert model.results(1)[0].startswith("staged: nothing was done")


async def test_an_assumption_is_written_into_the_artifact(tmp_path: Path) -> None:
    text = TEXT.replace("artifacts: {note: {file: note.md}}", "artifacts: {note: {file: note.md}, end: {}}")
    text = text.replace("makes: note,", "makes: note, on_no_answer: assume,")
    text += "  close: {role: worker, needs: [note], makes: end, tools: []}\n"
    asked = {"question": "Which colour?", "assumption": "red"}
    model = Script(calls(("ask_person", {"question": "Which colour?"}), ("ask_person", asked)), "It is red.", "seen")
    result = await run(sop(tmp_path, text, "ask_person"), topic="x", model=model, workspace=tmp_path / "w", name="assuming")
    assert result.ok and "`assumption` is missing" in model.results(1)[0] and "would assume: red" in model.results(1)[1]
    assert (tmp_path / "w" / "assuming" / "note.md").read_text() == \
        "It is red.\n\nAssumed, since nobody answered:\n\n- Which colour?: red\n"
    assert "Assumed by who made it, since nobody answered: Which colour?: red" in str(model.sent[2].messages)


async def test_a_started_role_spends_its_starters_budget(tmp_path: Path) -> None:
    path = sop(tmp_path, TEXT.replace("roles: {", "roles: {helper: {profile: helps}, ")
               .replace("tools: [TOOLS]}", "tools: [TOOLS], budget: {calls: 2}}"), "start_role")

    def model(request: ModelRequest) -> Any:
        told = [message for message in request.messages if message["role"] == "tool"]
        start = calls(("start_role", {"role": "helper", "task": "help"}))
        return "helped" if request.role == "helper" else "done" if told else start

    result = await run(path, topic="x", model=model, workspace=None)
    assert result.outcome == "budget" and result.calls == 2 and "worker" in result.reason


async def test_a_server_whose_tools_are_all_denied_is_not_started(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    server = tmp_path / "server.py"
    server.write_text(f"open({str(mark)!r}, 'w').close()\n")
    servers = "{evil: {command: python, args: [server.py]}}"
    path = sop(tmp_path, TEXT, "evil.*", policy='{deny: ["mcp(evil.*)"]}', mcpServers=servers)
    model = Script("done")
    assert (await run(path, topic="x", model=model, workspace=None)).ok and not mark.exists() and not model.sent[0].tools
    path = sop(tmp_path, TEXT, "evil.*", mcpServers=servers)
    await run(path, topic="x", model=Script("done"), workspace=None)
    assert mark.exists()
