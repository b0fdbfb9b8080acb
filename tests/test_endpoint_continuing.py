"""Answers that end at their longest length are gone on with, and joined without a seam."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import model_at
from openai_server import OpenAIServer
from scripted import Scripted, events, write

from metaflow_agents import run
from metaflow_agents.agent.truncation import joined
from metaflow_agents.api.run import resume
from metaflow_agents.models.port import Reply
from metaflow_agents.schema.event import Failed, Reserved

SOP = """
    sop: long
    inputs: {topic: string}
    roles: {ann: {profile: You write.}}
    artifacts: {MADE}
    steps: {write: {role: ann, needs: [topic], makes: STEP}}
"""
TEXT = "".join(f"Line {number}: a würd, and some more of them.\n" for number in range(40))
ROWS = {"answer": [{"name": f"row {number}", "note": None} for number in range(60)]}


def going_on(whole: str, *, repeating: int = 0, fenced: bool = False) -> Any:
    """A model that answers with a text, from where it was cut; it may repeat some of it, or begin with a fence."""
    def answer(asked: dict[str, Any]) -> str:
        messages = asked["messages"]
        if "Go on exactly where it stopped" not in messages[-1]["content"]:
            return whole
        assert messages[-2]["role"] == "assistant" and messages[-2]["content"][-120:] in messages[-1]["content"]
        assert "response_format" not in asked
        assert ("The JSON Schema of your answer" in messages[-3]["content"]) is whole.startswith("{")
        rest = whole[max(len(messages[-2]["content"]) - repeating, 0):]
        return f"```json\n{rest}\n```" if fenced else rest
    return answer


@pytest.mark.parametrize("repeating", [0, 60])
async def test_a_long_text_comes_whole(tmp_path: Path, repeating: int) -> None:
    path = write(tmp_path, SOP.replace("MADE", "report: {}").replace("STEP", "report"))
    async with OpenAIServer(going_on(TEXT, repeating=repeating)) as server:
        result = await run(path, topic="x", model=model_at(server.url, max_tokens=700), workspace=tmp_path, name="long")
        assert result.ok and result["report"] == TEXT, result.reason
        keys = [event.key for event in events(tmp_path, "long", Reserved)]
        assert keys == ["write@1~0/turn.0", "write@1~0/turn.0/more.1", "write@1~0/turn.0/more.2"]
        assert result.tokens == server.tokens


async def test_long_data_comes_whole_and_as_it_was_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, SOP.replace("MADE", "rows: {schema: [{name: string, 'note?': string}]}").replace("STEP", "rows"))
    for fenced in (False, True):
        async with OpenAIServer(going_on(json.dumps(ROWS), fenced=fenced)) as server:
            result = await run(path, topic="x", model=model_at(server.url, max_tokens=900), workspace=None)
        assert result.ok and result["rows"] == [{"name": f"row {number}"} for number in range(60)], result.reason


async def test_files_are_gone_on_with_inside_of_a_block(tmp_path: Path) -> None:
    path = write(tmp_path, SOP.replace("MADE", "book: {files: '*.txt'}").replace("STEP", "book"))
    whole = f"=== file: a.txt ===\n{TEXT}=== end ===\n"
    async with OpenAIServer(going_on(whole)) as server:
        result = await run(path, topic="x", model=model_at(server.url, max_tokens=900), workspace=None)
    assert result.ok and result["book"] == {"a.txt": TEXT}, result.reason


async def test_what_is_too_long_all_the_same_fails_and_says_how_long_it_may_be(tmp_path: Path) -> None:
    path = write(tmp_path, SOP.replace("MADE", "report: {}").replace("STEP", "report"))
    async with OpenAIServer(going_on(TEXT)) as server:
        result = await run(path, topic="x", model=model_at(server.url, max_tokens=100), workspace=tmp_path, name="long")
    (failed,) = events(tmp_path, "long", Failed)
    assert not result.ok and "it may be 400 tokens long" in failed.error and len(events(tmp_path, "long", Reserved)) == 4


async def test_reasoning_that_leaves_no_answer_is_no_answer_to_go_on_with(tmp_path: Path) -> None:
    path = write(tmp_path, SOP.replace("MADE", "report: {}").replace("STEP", "report"))
    async with OpenAIServer(lambda asked: "<think>" + "hm " * 500) as server:
        result = await run(path, topic="x", model=model_at(server.url, max_tokens=100), workspace=None)
    assert not result.ok and len(server.bills) == 1 and result.tokens == server.tokens


async def test_parts_are_answered_from_the_journal(tmp_path: Path) -> None:
    path = write(tmp_path, SOP.replace("MADE", "report: {}").replace("STEP", "report"))
    model = Scripted(write=[Reply("begun ", tokens_in=1, tokens_out=1, cut=True), ValueError("broken")])
    assert not (await run(path, topic="x", model=model, workspace=tmp_path, name="long")).ok
    model = Scripted(write=[Reply("ended", tokens_in=1, tokens_out=1)])
    result = await resume("long", workspace=tmp_path, model=model, accept_changes=True)
    assert result.ok and result["report"] in ("begun ended", "ended")


@pytest.mark.parametrize(("before", "after", "whole"), [
    ("def f():\n    ", "    return 1", "def f():\n        return 1"),                  # short: it may well stand there
    ("one two three four five six", "four five six seven eight", "one two three four five sixfour five six seven eight"),
    ("some words, and this is how it all ends", "this is how it all ends, and goes on",
     "some words, and this is how it all ends, and goes on"),
    ("a b c d e f g h i j. " * 4, "a b c d e f g h i j. " * 2, "a b c d e f g h i j. " * 6),           # it repeats itself
    ("-" * 60, "-" * 60 + "x", "-" * 120 + "x"),
    ("", "all of it, from its very beginning", "all of it, from its very beginning"),
])
def test_what_is_repeated_stands_there_once(before: str, after: str, whole: str) -> None:
    assert joined(before, after) == whole
