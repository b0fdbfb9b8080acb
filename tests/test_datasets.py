"""Data sets from journals: what each holds, what its filter leaves out and says so, in the form that fine-tuning takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, write

from metaflow_agents import run
from metaflow_agents.cli import command
from metaflow_agents.models.port import Reply, ToolCall

DESK = """
    sop: desk
    inputs: {topic: string}
    roles: {writer: {profile: You write., tools: [write]}, judge: {profile: You judge.}}
    artifacts: {page: {files: "*.md"}, marks: {schema: {mark: integer}}, word: {}}
    steps:
      write_it: {role: writer, needs: [topic], makes: page}
      mark_it: {role: judge, needs: [page], makes: marks, MARK}
      say_it: {role: judge, needs: [marks], makes: word, task: Say it.}
    success: marks.mark > 0
"""


def writer(request: Any) -> Any:
    if any(message["role"] == "tool" for message in request.messages):
        return "written"
    return Reply("", calls=(ToolCall("1", "write", {"path": "a.md", "text": "A page."}),))


async def desk(folder: Path, name: str, marks: Any, *, mark: str = "task: Mark it.", topic: str = "tea",
               write_it: Any = writer) -> None:
    path = write(folder, DESK.replace("MARK", mark))
    await run(path, topic=topic, model=Scripted(write_it=write_it, mark_it=marks, say_it="so it is"), workspace=folder / "w",
              name=name)


def export(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[dict[str, Any]], str]:
    file = folder / "set.jsonl"
    status = command(["export", *words, "--output", str(file), "--workspace", str(folder / "w")])
    out, err = capsys.readouterr()
    assert status == 0, err
    return [json.loads(line) for line in file.read_text().splitlines()], out


def roles(line: dict[str, Any]) -> list[str]:
    return [message["role"] for message in line["messages"]]


async def test_finetune_holds_accepted_answers_to_fresh_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await desk(tmp_path, "one", ["not json", {"mark": 3}])
    lines, _ = export(tmp_path, capsys, "one", "--for", "finetune")
    assert [line["messages"][-1]["content"] for line in lines] == ["written", '{"mark":3}', "so it is"]
    assert roles(lines[1]) == ["system", "user", "assistant"], "the repair is left out: the answer stands under the first prompt"
    assert not any("not json" in json.dumps(line) for line in lines)
    await desk(tmp_path, "red", {"mark": 0})
    lines, out = export(tmp_path, capsys, "red", "--for", "finetune")
    assert lines == [] and "left out: 3 activations, its run did not end with success" in out


async def test_tool_calls_are_those_that_led_to_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await desk(tmp_path, "one", {"mark": 3})
    (line,), out = export(tmp_path, capsys, "one", "--for", "tool_calls")
    assert roles(line) == ["system", "user", "assistant", "tool", "assistant"]
    call, = line["messages"][2]["tool_calls"]
    assert call["type"] == "function" and json.loads(call["function"]["arguments"]) == {"path": "a.md", "text": "A page."}
    assert line["messages"][3]["tool_call_id"] == call["id"] and line["tools"][0]["function"]["name"] == "write"
    assert "2 activations, called no tool" in out

    def clumsy(request: Any) -> Any:
        told = [message for message in request.messages if message["role"] == "tool"]
        return writer(request) if told else Reply("", calls=(ToolCall("1", "wriite", {"path": "a.md", "text": "x"}),))
    by_hand = "=== file: a.md ===\nx\n=== end ==="
    await desk(tmp_path, "two", {"mark": 3}, write_it=lambda request: clumsy(request) if len(request.messages) < 4 else by_hand)
    lines, out = export(tmp_path, capsys, "two", "--for", "tool_calls")
    assert lines == [] and "a call was refused or failed" in out


async def test_hindsight_has_the_worse_before_the_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await desk(tmp_path, "one", ["not json", {"mark": "many"}, {"mark": 3}])
    (line,), out = export(tmp_path, capsys, "one", "--for", "hindsight")
    assert roles(line) == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    said = [message["content"] for message in line["messages"]]
    assert said[2] == "not json" and "not JSON" in said[3] and "many" in said[4] and said[-1] == '{"mark":3}'
    assert "2 activations, no answer was turned down" in out


async def test_episodes_are_histories_that_get_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await desk(tmp_path, "one", ["no", "no", "no", {"mark": 3}], mark="retries: 1")
    (line,), _ = export(tmp_path, capsys, "one", "--for", "episodes")
    said = [message["content"] for message in line["messages"]]
    assert said[2] == "no" and said[3].startswith("The last answer was not taken: ") and said[-1] == '{"mark":3}'
    await desk(tmp_path, "two", {"mark": 3})
    lines, out = export(tmp_path, capsys, "two", "--for", "episodes")
    assert lines == [] and "no history that gets better" in out


async def test_what_is_from_outside_or_held_a_secret_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DESK.replace("topic: string", "topic: {type: string, trusted: false}").replace("MARK", "task: Mark it.")
    path = write(tmp_path, text)
    model = Scripted(write_it=writer, mark_it={"mark": 3}, say_it="so it is")
    await run(path, topic="tea", model=model, workspace=tmp_path / "w", name="outside")
    lines, out = export(tmp_path, capsys, "outside", "--for", "finetune")
    assert lines == [] and "left out: 3 activations, from outside the user" in out
    assert len(export(tmp_path, capsys, "outside", "--for", "finetune", "--untrusted")[0]) == 3
    await desk(tmp_path, "secret", {"mark": 3}, topic="the key is [secret DESK_KEY]")
    lines, out = export(tmp_path, capsys, "secret", "--for", "finetune", "--untrusted")
    assert "held a secret" in out and "[secret" not in json.dumps(lines)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("words", "told"), [
    ("one --for finetune", "--output FILE.jsonl"), ("one --for fine", "finetune"), ("one --output x.jsonl", "--for finetune"),
    ("one two --recording x.jsonl", "one recording is of one run"), ("one --for finetune --recording x.jsonl", "give one"),
    ("one --for finetune --output none/x.jsonl", "none/"), ("oen --for finetune --output x.jsonl", "there is none"),
])
def test_wrong_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str,
                     told: str) -> None:
    monkeypatch.chdir(tmp_path)
    if "none/x" in words:
        Path("workspace/.journals").mkdir(parents=True)
        from metaflow_agents.journal.journal import Journal
        Journal.create(Path("workspace/.journals/one.db"))
    status = command(["export", *words.split()])
    err = capsys.readouterr().err
    assert status in (1, 2) and told in err and "Traceback" not in err, err
