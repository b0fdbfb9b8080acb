"""SOPs as steps of SOPs: keys, resume inside, budgets, policy, trust, people; what `sop check` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripted import Scripted, events, write
from stopping import stopped_everywhere

from metaflow_agents import run
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Reserved

CHAPTER = """
    sop: chapter
    inputs: {title: string, tone: {type: string, default: plain}}
    roles: {writer: {profile: You write.}, critic: {profile: You judge.}}
    artifacts: {text: {}, verdict: {schema: {good: boolean}}}
    steps:
      draft: {role: writer, needs: [title], sees: [tone], makes: text, task: "Draft {{ title }}, {{ tone }}"}
      judge: {role: critic, needs: [text], makes: verdict}
      mend: {role: writer, needs: [verdict], sees: [text], when: not verdict.good, makes: text, rounds: 2, task: Mend it}
    outputs: [text]
    success: verdict.good
"""
BOOK = """
    sop: book
    inputs: {topic: string}
    roles: {planner: {profile: You plan.}}
    artifacts:
      plan: {schema: {chapters: [{id: string, needs: [string]}]}, graph: {nodes: chapters, key: id, edges: needs}}
      chapters: {each: string}
    steps:
      plan_it: {role: planner, needs: [topic], makes: plan}
      write:
        sop: chapter
        inputs: {title: chapter.id}
        needs: [plan]
        foreach: {in: plan.chapters, as: chapter}
        makes: chapters
        KEYS
"""


def book(folder: Path, keys: str = "retries: 0", chapter: str = CHAPTER) -> Path:
    return write(folder, BOOK.replace("KEYS", keys), chapter_yaml=chapter)


def answer(request: ModelRequest) -> Any:
    """A plan of two chapters; the first draft of `b` is mended once."""
    if request.step == "plan_it":
        return {"chapters": [{"id": "b", "needs": ["a"]}, {"id": "a", "needs": []}]}
    if request.step == "judge":
        return {"good": "[a]" in request.key or "judge@2" in request.key}
    return f"{request.step} of {request.key}"


KEYS = ["plan_it@1~0/turn.0", "write@1[a]~0/draft@1~0/turn.0", "write@1[a]~0/judge@1~0/turn.0", "write@1[b]~0/draft@1~0/turn.0",
        "write@1[b]~0/judge@1~0/turn.0", "write@1[b]~0/mend@1~0/turn.0", "write@1[b]~0/judge@2~0/turn.0"]


async def test_a_task_of_a_plan_is_a_sop_with_keys_of_its_own(tmp_path: Path) -> None:
    model = Scripted(plan_it=answer, draft=answer, judge=answer, mend=answer)
    result = await run(book(tmp_path), topic="rain", model=model, workspace=tmp_path, name="it")
    assert result.ok, result.reason
    assert model.keys == KEYS
    assert result["chapters"] == {"b": "mend of write@1[b]~0/mend@1~0/turn.0", "a": "draft of write@1[a]~0/draft@1~0/turn.0"}
    assert "Draft a, plain" in model.said(KEYS[1])
    assert [event.key for event in events(tmp_path, "it", Reserved)] == KEYS and result.calls == 7


async def test_a_run_is_stopped_at_every_call_inside_and_gone_on_with(tmp_path: Path) -> None:
    assert await stopped_everywhere(book(tmp_path), answer, tmp_path / "runs", topic="rain") == 7
