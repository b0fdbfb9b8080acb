"""`progress:`: a role looks at the run as a whole at intervals, and lets it go on, replans it or stops it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, events, firings, write
from stopping import stopped_everywhere

from metaflow_agents import check, resume, run
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.schema.event import Committed, Failed, Finished, Fired, Reserved

SERIES = """
    sop: series
    description: A book by chapters.
    inputs: {topic: string}
    budget: {calls: 40, tokens: 1M, time: 1h}
    progress: {every: 2 calls, goal: "A book about {the sea}", role: manager MORE}
    roles: {writer: {profile: You write.}, manager: {profile: You lead.}}
    artifacts: {advice: {}, plan: {schema: {chapters: [string]}}, book: {each: string}, end: {}}
    steps:
      plan_it: {role: writer, needs: [topic], wants: [advice], makes: plan}
      write: {role: writer, needs: [plan], foreach: {in: plan.chapters, as: chapter, parallel: 1}, makes: book,
              show: {plan: whole}}
      close: {role: writer, needs: [book], sees: [plan], makes: end}
    outputs: [book, end]
"""
MORE = ", makes: advice"
PLAIN = SERIES.replace(" MORE", "").replace("wants: [advice], ", "").replace("advice: {}, ", "")
WRITING = ("progress", "plan_it", "write", "close")


async def author(request: ModelRequest) -> Any:
    """Plans what it is advised to; the manager replans while the plan is about deserts."""
    said = request.messages[-1]["content"]
    if request.step == "progress":
        wrong = "desert" in said.partition('<artifact name="plan"')[2].partition("</artifact>")[0]
        actions = json.dumps(re.findall(r"^- `(\w+)`: (?:it|they)", said, re.MULTILINE))
        if wrong and '"replan"' in actions:
            return {"action": "replan", "why": "write about the sea"}
        return {"action": "continue", "why": "fine"}
    if request.step == "plan_it":
        return {"chapters": ["sea", "coast"] if "write about the sea" in said else ["desert", "dune", "camel"]}
    chapter = re.search(r"only: `(\w+)`", said)
    return f"about the {chapter[1]}" if chapter else "the end"


async def test_it_is_looked_at_and_replanned_where_it_is_off_course(tmp_path: Path) -> None:
    model = Scripted({step: author for step in WRITING})
    sop = write(tmp_path, SERIES.replace(" MORE", MORE))
    result = await run(sop, topic="sea", model=model, workspace=tmp_path, name="book")
    assert result.ok and result["book"] == {"sea": "about the sea", "coast": "about the coast"}
    looks = [event for event in events(tmp_path, "book", Fired) if event.step == "progress"]
    assert [event.round for event in looks] == list(range(1, len(looks) + 1)) and len(looks) >= 2
    assert firings(tmp_path, "book").count("plan_it@2") == 1, "the advice fires the planner again"
    said = model.last_said("progress@1~0/verdict")
    assert "Its goal: A book about {the sea}" in said and re.search(r"\n[23] model calls of 40", said)
    assert "Of its time, 0 tenths are used up." in said
    assert "`write`: fired 1 times, under way" in said and '<artifact name="plan" version="1">' in said
    assert "You lead." in model.said("progress@1~0/verdict")
    assert "- replan: write about the sea" in model.last_said("progress@2~0/verdict")


async def test_without_it_the_run_stays_off_course(tmp_path: Path) -> None:
    plain = re.sub(r"\n    progress:.*", "", PLAIN)
    model = Scripted({step: author for step in ("plan_it", "write", "close")})
    result = await run(write(tmp_path, plain.replace(", manager: {profile: You lead.}", "")), topic="sea", model=model,
                       workspace=None)
    assert list(result["book"]) == ["desert", "dune", "camel"]


async def test_it_may_not_replan_more_often_than_said(tmp_path: Path) -> None:
    def off(request: ModelRequest) -> Any:
        if request.step != "progress":
            return {"chapters": [f"c{request.key.partition('@')[2][0]}", "d"]} if request.step == "plan_it" else "text"
        return {"action": "replan" if "`replan`" in request.messages[-1]["content"] else "continue", "why": "again"}

    model = Scripted({step: off for step in WRITING})
    sop = write(tmp_path, SERIES.replace(" MORE", MORE + ", replans: 1"))
    result = await run(sop, topic="sea", model=model, workspace=tmp_path, name="once")
    made = [version for event in events(tmp_path, "once", Committed) for version in event.versions
            if version.artifact == "advice"]
    assert result.ok and len(made) == 1
    assert any("You looked at it before" in model.last_said(key) for key in model.keys if key.startswith("progress@2"))


async def test_it_stops_the_run_with_the_reason_and_a_resume_asks_again(tmp_path: Path) -> None:
    stops = [True]

    def stern(request: ModelRequest) -> Any:
        if request.step == "progress":
            return {"action": "stop" if stops[0] else "continue", "why": "nobody wants deserts"}
        return {"chapters": ["a", "b"]} if request.step == "plan_it" else "text"

    model = Scripted({step: stern for step in WRITING})
    sop = write(tmp_path, PLAIN)
    result = await run(sop, topic="sea", model=model, workspace=tmp_path, name="stern")
    assert result.outcome == "stopped" and result.reason == "progress@1~0: `manager` stops the run: nobody wants deserts"
    assert [event.stops for event in events(tmp_path, "stern", Failed)] == [True]
    stops[0] = False
    result = await resume("stern", model=model, workspace=tmp_path)
    assert result.ok and "progress@1~1/verdict" in model.keys


async def test_looks_count_in_the_budget_and_not_towards_the_next_look(tmp_path: Path) -> None:
    model = Scripted({step: author for step in WRITING})
    sop = PLAIN.replace("2 calls", "1 call").replace("{profile: You lead.}", "{profile: You lead., budget: {calls: 2}}")
    result = await run(write(tmp_path, sop), topic="sea", model=model, workspace=tmp_path, name="poor")
    assert result.outcome == "budget" and "role manager's cap of 2 calls" in result.reason
    paid = [event.role for event in events(tmp_path, "poor", Reserved)]
    assert paid.count("manager") == 2 and paid.count("writer") >= 2


async def test_what_it_saw_from_outside_labels_its_advice(tmp_path: Path) -> None:
    model = Scripted({step: author for step in WRITING})
    sop = SERIES.replace(" MORE", MORE).replace("topic: string", "topic: {type: string, trusted: false}")
    await run(write(tmp_path, sop), topic="sea", model=model, workspace=tmp_path, name="label")
    advice = [version.untrusted for event in events(tmp_path, "label", Committed) for version in event.versions
              if version.artifact == "advice"]
    assert advice and set(advice) == {"the input topic"}
    looked = [event.untrusted for event in events(tmp_path, "label", Finished) if event.activation.startswith("progress")]
    assert set(looked) == {"the input topic"}


@pytest.mark.one_in(4)
async def test_it_is_stopped_at_every_call_and_gone_on_with(tmp_path: Path) -> None:
    sop = write(tmp_path, SERIES.replace(" MORE", MORE))
    runs = tmp_path / "runs"
    whole = await stopped_everywhere(sop, lambda: Scripted({step: author for step in WRITING}), runs, same_calls=False,
                                     topic="sea")
    assert list(whole.result["book"]) == ["sea", "coast"]


async def test_a_walk_looks_and_goes_on(tmp_path: Path) -> None:
    sop = write(tmp_path, SERIES.replace(" MORE", MORE))
    result = await run(sop, topic="sea", model="dry", workspace=tmp_path, name="walk")
    assert result.ok and "progress@1" in firings(tmp_path, "walk")


def test_it_is_checked_and_bounds_the_calls(tmp_path: Path) -> None:
    report = check(write(tmp_path, SERIES.replace(" MORE", MORE)))
    assert report.ok and not report.warnings, report.problems
    assert report.bounds is not None and report.bounds.steps["plan_it"].firings == 3
    for was, wrong, told in (
            ("role: manager", "role: manger", "did you mean `manager`"),
            (", makes: advice", ", makes: advise", "not declared"),
            ("wants: [advice], ", "", "no step fires again"),
            ("advice: {}", "advice: {schema: integer}", "a text that nobody else"),
            ("every: 2 calls", "every: 2 days", "write like `10 calls`"),
            ("      close:", "      progress:", "rename the step"),
            ("goal:", "gaol:", "did you mean `goal`")):
        problems = "\n".join(map(str, check(write(tmp_path, SERIES.replace(" MORE", MORE).replace(was, wrong))).problems))
        assert told in problems, (wrong, problems)


async def test_it_does_not_replan_again_what_is_being_replanned(tmp_path: Path) -> None:
    """The planner takes its time, while chapters of the old plan go on being written, each of which makes a look due."""
    async def slowly(request: ModelRequest) -> Any:
        for _ in range(500 if request.key.startswith("plan_it@2") else 0):
            await asyncio.sleep(0)
        return await author(request)

    model = Scripted({step: slowly for step in WRITING})
    sop = write(tmp_path, SERIES.replace(" MORE", MORE + ", replans: 5").replace("2 calls", "1 call"))
    result = await run(sop, topic="sea", model=model, workspace=tmp_path, name="slow")
    made = [version for event in events(tmp_path, "slow", Committed) for version in event.versions
            if version.artifact == "advice"]
    assert result.ok and len(made) == 1


async def test_each_so_many_answers_are_looked_at_once(tmp_path: Path) -> None:
    model = Scripted({step: author for step in WRITING})
    result = await run(write(tmp_path, PLAIN.replace("2 calls", "1 call")), topic="sea", model=model, workspace=None)
    work = [key for key in model.keys if not key.startswith("progress")]
    assert result.ok and len(model.keys) - len(work) == len(work) == 5
