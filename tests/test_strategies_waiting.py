"""A question to a person in the middle of calls that are made side by side: nothing beside it is lost or done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripted import write

from metaflow_agents import resume, run
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.questions.answering import give
from metaflow_agents.questions.inbox import open_questions
from metaflow_agents.questions.question import Answer
from metaflow_agents.settings import Settings

SOP = """
    sop: asks
    roles:
      writer: {profile: You write., tools: [ask_person]}
      other: {profile: You write too., tools: [ask_person]}
    artifacts: {letter: {}}
    steps: {write: {role: writer, makes: letter, strategy: {STRATEGY}}}
"""
STRATEGIES = {
    "self_consistency": ("self_consistency: {samples: 3}", ("vote.s0/", "vote.s2/")),
    "debate": ("debate: {roles: [writer, other, other], rounds: 2}", ("debater.0/", "debater.2/")),
    "plan_and_execute": ("plan_and_execute: {}", ("task.a/", "task.c/")),
    "route": ("route: {experts: {writer: {}, other: {}}}", ("expert.other/",)),
    "task_queue": ("task_queue: {tasks: 2}", ("queue.0/do/",)),
    "tree_of_thoughts": ("tree_of_thoughts: {depth: 1, samples: 1}", ("~0/turn.0",)),
}
"""Strategy, and the branches on which a person is asked."""


class Asking:
    """Asks a person first on some of its branches; those that ask don't wait for the others, which take a while."""

    def __init__(self, asks: tuple[str, ...]) -> None:
        self.asks, self.begun, self.finished, self.requests = asks, list[str](), list[str](), list[ModelRequest]()

    async def __call__(self, request: ModelRequest) -> Any:
        self.begun.append(request.key)
        self.requests.append(request)
        asks = any(branch in request.key for branch in self.asks)
        for _ in range(1 if asks else 40):
            await asyncio.sleep(0)
        self.finished.append(request.key)
        told = [str(message["content"]) for message in request.messages if message["role"] == "tool"]
        if asks and request.tools and not told:
            return Reply("", calls=(ToolCall("", "ask_person", {"question": f"What of {request.key}?"}),))
        return said(request, told)


def said(request: ModelRequest, told: list[str]) -> Any:
    key = request.key
    if "/task." in key:
        names = request.schema["properties"]["results"]["properties"] if request.schema else {}
        return {"ok": True, "why": "", "results": dict.fromkeys(names, "; ".join(told) or "nobody was asked")}
    if "/plan." in key:
        return {"tasks": [{"name": one, "does": one, "needs": needs, "makes": [f"{one}.out"], "value": 1, "effort": 1}
                          for one, needs in (("a", []), ("b", []), ("c", []), ("d", ["b.out"]))]}
    if "/do/" in key:
        return {"ok": True, "result": "; ".join(told) or "done"}
    if "/create" in key:
        return {"tasks": [] if "/queue." in key else ["x"]}
    if key.endswith("/choice"):
        return {"expert": "other", "why": ""}
    if key.endswith(".propose"):
        return {"thoughts": ["p", "q"]}
    if ".value." in key:
        return {"why": "", "value": "sure"}
    return f"told: {'; '.join(told)}" if told else "done"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", STRATEGIES)
async def test_the_others_go_on_the_run_parks_and_no_call_is_made_twice(tmp_path: Path, name: str) -> None:
    strategy, asks = STRATEGIES[name]
    path, first = write(tmp_path, SOP.replace("STRATEGY", strategy)), Asking(asks)
    result = await run(path, model=first, workspace=tmp_path, name="asks")
    assert result.outcome == "waiting", result
    assert Counter(first.begun) == Counter(first.finished), "nothing that was under way is broken off"
    journal = tmp_path / ".journals" / "asks.db"
    asked = open_questions(journal)
    assert len(asked) == len(asks), "all that are asked side by side are asked at once"
    for one in asked:
        assert await give(journal, one.question, Answer(text=f"the answer to {one.question.key}"), Settings.read()) == ""
    again = Asking(asks)
    result = await resume("asks", model=again, workspace=tmp_path)
    assert result.ok and Counter(first.finished + again.finished).most_common(1)[0][1] == 1, (first.finished, again.finished)
    told = "\n".join(str(message["content"]) for one in again.requests for message in one.messages)
    assert all(f"the answer to {one.question.key}" in told for one in asked)
    if name == "plan_and_execute":
        could = {f"write@1~0/plan.0/task.{name}/turn.0" for name in "bd"}
        assert could <= set(first.finished), "what could be done is done"
