"""Debate: rounds in which each sees the others' last answers, an exact vote, a judge; on GSM8K with seeded errors."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from scripted import Scripted, noted, write
from stopping import stopped_everywhere

from metaflow_agents import check, run

DESK = """
    sop: desk
    inputs: {question: string}
    roles:
      chair: {profile: You lead.}
      low: {profile: You guess low.}
      high: {profile: You guess high.}
      judge: {profile: You judge.}
    artifacts: {answer: {schema: {number: integer, 'why?': string}}}
    steps:
      solve:
        role: chair
        needs: [question]
        makes: answer
        strategy: {debate: {PARAMETERS}}
"""
FIRST = {"low": 1, "high": 9}


def others(request: Any) -> list[int]:
    """The numbers that stand in the prompt as what the others answered."""
    said = request.messages[-1]["content"]
    return [json.loads(text)["number"] for text in re.findall(r"<answer number[^>]*>(.*?)</answer>", said, re.DOTALL)]


def meeting(request: Any) -> Any:
    """Each begins at its own number, and goes half of the way to what the others say."""
    if "/judge/" in request.key:
        return {"best": len(others(request)), "why": "the last"}
    told = others(request)
    if not told:
        return {"number": FIRST[request.role]}
    own = json.loads(request.messages[-2]["content"])["number"]
    return {"number": round((own + sum(told) / len(told)) / 2)}


def desk(folder: Path, parameters: str) -> Path:
    return write(folder, DESK.replace("PARAMETERS", parameters))


async def debated(folder: Path, parameters: str, answer: Any = meeting) -> tuple[Any, Scripted]:
    model = Scripted(solve=answer)
    result = await run(desk(folder, parameters), question="x", model=model, workspace=folder, sandbox="none")
    assert result.ok, result.reason
    return result["answer"], model


async def test_each_sees_the_others_last_answers_and_its_own_conversation(tmp_path: Path) -> None:
    found, model = await debated(tmp_path, "roles: [low, high], rounds: 2")
    assert found == {"number": 5}, "1 and 9 come to 5 and 5"
    assert sorted(model.keys) == [f"solve@1~0/debater.{who}/round.{number}/turn.0" for who in (0, 1) for number in (0, 1)]
    last = model.said("solve@1~0/debater.0/round.1/turn.0")
    assert "You guess low." in last and '"number": 9' in last and 'from="high"' in last and '"number":1' in last.replace(" ", "")
    assert not any("You lead." in message["content"] for request in model.requests for message in request.messages)


async def test_without_a_second_round_nobody_moves(tmp_path: Path) -> None:
    found, model = await debated(tmp_path, "roles: [low, high], rounds: 1")
    assert found == {"number": 1} and len(model.keys) == 2
    assert noted(tmp_path, "desk-1", "/debate") == [
        {"rounds": 1, "answers": 2, "in_form": 2, "different": 2, "most": 1, "tied": 2}]


async def test_who_agrees_is_not_asked_again(tmp_path: Path) -> None:
    _, model = await debated(tmp_path, "roles: [low, high], rounds: 9")
    assert len(model.keys) == 4
    assert noted(tmp_path, "desk-1", "/debate")[0]["rounds"] == 2


async def test_most_votes_win_by_what_is_compared(tmp_path: Path) -> None:
    def said(request: Any) -> Any:
        return {"number": 1 if "debater.0" in request.key else 2, "why": request.key}
    found, _ = await debated(tmp_path, "roles: [low, high, high], compare: answer.number, rounds: 2", said)
    assert found == {"number": 2, "why": "solve@1~0/debater.1/round.1/turn.0"}
    found, model = await debated(tmp_path, "roles: [high, high], compare: answer.number, rounds: 3",
                                 lambda request: {"number": 1, "why": request.key})
    assert len(model.keys) == 2, "they agree in what is compared"


@pytest.mark.one_in(4)
async def test_a_judge_chooses_among_what_is_left(tmp_path: Path) -> None:
    found, model = await debated(tmp_path, "roles: [low, low, high], rounds: 1, judge: judge")
    assert found == {"number": 9}, "two say 1, and the judge takes the last of the two different answers"
    assert "You judge." in model.said("solve@1~0/judge/choice") and others(model.requests[-1]) == [1, 9]
    found, model = await debated(tmp_path, "roles: [low, low], rounds: 1, judge: judge")
    assert found == {"number": 1} and not any("judge" in key for key in model.keys), "they agree"


async def test_a_round_is_all_at_once(tmp_path: Path) -> None:
    """Each waits for the others of its round: one after the other they would wait for ever."""
    waiting: dict[str, asyncio.Barrier] = {}

    async def together(request: Any) -> Any:
        number = request.key.split("round.")[1]
        await waiting.setdefault(number, asyncio.Barrier(3)).wait()
        return {"number": int("debater.0" in request.key)}
    async with asyncio.timeout(20):
        found, _ = await debated(tmp_path, "roles: [low, high, high]", together)
    assert found == {"number": 0}


async def test_who_is_not_in_form_hears_why_has_no_vote_and_is_not_shown(tmp_path: Path) -> None:
    def said(request: Any) -> Any:
        if "debater.0/round.0" in request.key:
            return "no json"
        return {"number": len(others(request))}
    _, model = await debated(tmp_path, "roles: [low, high], rounds: 2", said)
    assert "can't be taken" in model.last_said("solve@1~0/debater.0/round.1/turn.0")
    assert "None of the others" in model.last_said("solve@1~0/debater.1/round.1/turn.0")


async def test_where_nobody_is_in_form_the_first_is_repaired_by_itself(tmp_path: Path) -> None:
    found, model = await debated(tmp_path, "roles: [low, high], rounds: 1",
                                 lambda request: {"number": 4} if "repair" in request.key else "no json")
    assert found == {"number": 4} and model.keys[-1] == "solve@1~0/debater.0/turn.0/repair.1"
    assert model.requests[-1].role == "low"


def test_parameters_are_checked_and_bound_the_calls(tmp_path: Path) -> None:
    report = check(desk(tmp_path, "roles: [low, high, high], rounds: 3, judge: judge"))
    assert report.ok and report.problems == () and report.bounds is not None and report.bounds.calls == 9 + 3 + 2
    for wrong, told in (("roles: [low]", "roles"), ("roles: [low, hihg]", "did you mean `high`"), ("rounds: 2", "wants `roles`"),
                        ("roles: [low, high], rounds: 0", "at least 1"), ("roles: [low, high], judge: jugde", "`judge`"),
                        ("roles: [low, high], compare: answer.nummer", "did you mean `number`"),
                        ("roles: [low, high], prompts: {rond: x.j2}", "did you mean `round`")):
        assert told in "\n".join(map(str, check(desk(tmp_path, wrong)).problems)), wrong


async def test_a_dry_walk(tmp_path: Path) -> None:
    result = await run(desk(tmp_path, "roles: [low, high], judge: judge"), question="x", model="dry", workspace=None)
    assert result.ok and result.calls == 2


@pytest.mark.one_in(4)
@pytest.mark.parametrize("parameters", ["roles: [low, high], rounds: 2", "roles: [low, high, low], rounds: 1, judge: judge"])
async def test_stopped_at_each_call_it_comes_to_the_same(tmp_path: Path, parameters: str) -> None:
    whole = await stopped_everywhere(desk(tmp_path, parameters), lambda: meeting, tmp_path / "runs", question="x")
    assert whole.result.ok and len(whole.keys) == 4
