# ruff: noqa: E501  (SOPs stand here as people write them)
"""Caps at the SOP, a role and a step: never overrun, told with the mend, and raised by a resume that pays nothing twice."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from scripted import Scripted, events, write

from metaflow_agents import resume, run
from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.schema.event import Reserved, Settled

TEXT = """
    sop: spend
    inputs: {names: [string]}
    roles: {clerk: {profile: You write.ROLE}, judge: {profile: You judge.}}
    artifacts: {letters: {each: string}, verdict: {}}
    steps:
      write: {role: clerk, needs: [names], foreach: {in: names, as: name}, makes: letters STEP}
      judge_it: {role: judge, needs: [letters], makes: verdict}
    BUDGET
"""
NAMES = ["a", "b", "c", "d", "e"]


def spend(tmp_path: Path, *, sop: str = "", role: str = "", step: str = "") -> Path:
    text = TEXT.replace("BUDGET", f"budget: {{{sop}}}" if sop else "").replace("ROLE", f", budget: {{{role}}}" if role else "")
    return write(tmp_path, text.replace(" STEP", f", budget: {{{step}}}" if step else ""))


def overlap(tmp_path: Path, run: str) -> tuple[int, int]:
    """The most calls, and the most tokens, that stood against the budget at any moment: settled ones and those in flight."""
    calls = spent = most = 0
    open_: dict[str, int] = {}
    for event in events(tmp_path, run, Reserved, Settled):
        if isinstance(event, Reserved):
            calls += 1
            open_[event.key] = event.tokens
        else:
            spent += event.tokens_in + event.tokens_out
            del open_[event.key]
        most = max(most, spent + sum(open_.values()))
    return calls, most


@pytest.mark.parametrize(("where", "told"), [
    ({"sop": "calls: 3"}, "the run's cap of 3 calls is reached: 3 spent"),
    ({"role": "calls: 3"}, "the role clerk's cap of 3 calls is reached"),
    ({"step": "calls: 3"}, "the step write's cap of 3 calls is reached"),
])
async def test_a_cap_on_calls_stops_the_run_with_status_3(tmp_path: Path, where: dict[str, str], told: str) -> None:
    model = Scripted()
    result = await run(spend(tmp_path, **where), names=NAMES, model=model, workspace=tmp_path)
    assert (result.outcome, result.exit_status, result.ok) == ("budget", 3, False)
    assert told in result.reason and "sop resume spend-1" in result.reason
    assert len(model.keys) == result.calls == 3


async def test_a_resume_with_a_higher_cap_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    model = Scripted()
    path = spend(tmp_path, sop="calls: 2")
    await run(path, names=NAMES, model=model, workspace=tmp_path)
    again = await resume("spend-1", workspace=tmp_path, model=model)
    assert again.outcome == "budget" and len(model.keys) == 2              # the cap is the run's, not the process's
    again = await resume("spend-1", workspace=tmp_path, model=model, budget={"calls": 4})
    assert again.outcome == "budget" and len(model.keys) == 4
    again = await resume("spend-1", workspace=tmp_path, model=model)       # what was given stays
    assert again.outcome == "budget" and len(model.keys) == 4
    last = await resume("spend-1", workspace=tmp_path, model=model, budget={"calls": 6})
    assert last.ok and sorted(model.keys) == sorted([*(f"write@1[{name}]~0/turn.0" for name in NAMES), "judge_it@1~0/turn.0"])


async def test_a_cap_of_a_role_is_raised_in_the_sop(tmp_path: Path) -> None:
    model = Scripted()
    await run(spend(tmp_path, role="calls: 3"), names=NAMES, model=model, workspace=tmp_path)
    spend(tmp_path, role="calls: 5")
    assert (await resume("spend-1", workspace=tmp_path, model=model, accept_changes=True)).ok
    assert len(model.keys) == 6


async def test_tokens_are_reserved_at_their_worst_and_never_overrun(tmp_path: Path) -> None:
    async def model(request: ModelRequest) -> Reply:
        await asyncio.sleep(0.01)
        return Reply(text="x", tokens_in=500, tokens_out=1000)

    probe = await run(spend(tmp_path), names=["a"], model=model, workspace=tmp_path)
    worst = max(event.tokens for event in events(tmp_path, probe.name, Reserved))
    cap = 2 * worst + 3000
    result = await run(spend(tmp_path, sop=f"tokens: {cap}"), names=[f"n{i}" for i in range(30)], model=model, workspace=tmp_path, name="capped")
    calls, most = overlap(tmp_path, "capped")
    assert result.outcome == "budget" and f"cap of {cap:,} tokens" in result.reason
    assert most <= cap and result.tokens <= cap
    # A call that does not fit waits for those in flight, so that what is left is less than one call may cost.
    assert cap - result.tokens < worst + 1500 and calls == result.calls >= 3


async def test_a_budget_that_is_given_holds_beside_the_sops(tmp_path: Path) -> None:
    result = await run(spend(tmp_path, sop="calls: 5"), names=NAMES, model=Scripted(), workspace=None, budget={"calls": 1})
    assert result.outcome == "budget" and result.calls == 1
    result = await run(spend(tmp_path, sop="calls: 1"), names=NAMES, model=Scripted(), workspace=None, budget={"calls": "1k"})
    assert result.ok


async def test_repairs_checks_and_failed_calls_count(tmp_path: Path) -> None:
    text = TEXT.replace("ROLE", "").replace(" STEP", ", retries: 5").replace("BUDGET", "budget: {calls: 4}").replace("each: string", "each: integer")
    model = Scripted(write=["no json", ValueError("down"), "no", "no", 1])
    result = await run(write(tmp_path, text), names=["a"], model=model, workspace=None)
    assert result.outcome == "budget" and result.calls == len(model.keys) == 4


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("where", "told"), [
    ({"sop": "time: 300ms"}, "time budget is used up"), ({"role": "time: 300ms"}, "time budget of role clerk"),
    ({"step": "time: 300ms"}, "time budget of step write"),
])
async def test_a_cap_on_time(tmp_path: Path, where: dict[str, str], told: str) -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(3600 if "[c]" in request.key else 0.01)
        return "x"

    async with asyncio.timeout(PATIENCE):
        result = await run(spend(tmp_path, **where), names=NAMES, model=slow, workspace=tmp_path)
    assert result.outcome == "budget" and result.exit_status == 3 and told in result.reason
    if "role" not in where:
        cap = re.search(r"`sop resume spend-1 --budget (\S+)=…`", result.reason)
        assert cap is not None and cap[1] == ("time" if "sop" in where else "write/time")
        again = await resume("spend-1", workspace=tmp_path, model=Scripted(), budget={cap[1]: "20s"})
    else:
        spend(tmp_path, **{key: "time: 20s" for key in where})
        again = await resume("spend-1", workspace=tmp_path, model=Scripted(), accept_changes=True)
    assert again.ok and again.calls == 6 and again.unanswered.calls >= 1        # "c" was cut, on a slow machine others too


async def test_time_that_was_used_stays_used(tmp_path: Path) -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(20)
        return "x"

    await run(spend(tmp_path, sop="time: 200ms"), names=["a"], model=slow, workspace=tmp_path)
    model = Scripted()
    again = await resume("spend-1", workspace=tmp_path, model=model)
    assert again.outcome == "budget" and model.keys == []


async def test_time_of_a_role_that_an_expression_names(tmp_path: Path) -> None:
    text = TEXT.replace("role: clerk, needs: [names]", "role: \"'cle' ~ 'rk'\", needs: [names]")
    text = text.replace("ROLE", ", budget: {time: 200ms}").replace(" STEP", "").replace("BUDGET", "")

    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(20)
        return "x"

    result = await asyncio.wait_for(run(write(tmp_path, text), names=["a"], model=slow, workspace=None), 5)
    assert result.outcome == "budget" and "role clerk" in result.reason


async def test_what_a_failed_call_cost_is_the_same_before_and_after_a_resume(tmp_path: Path) -> None:
    """A call that raised costs nothing but its count: neither here nor in the journal."""
    async def first(request: ModelRequest) -> Any:
        raise ValueError("down")

    cap = 60_000
    result = await run(spend(tmp_path, sop=f"tokens: {cap}", step=""), names=["a"], model=first, workspace=tmp_path)
    assert result.outcome == "stopped" and result.tokens == 0 and result.calls == 1
    text = TEXT.replace("ROLE", "").replace(" STEP", ", retries: 20").replace("BUDGET", f"budget: {{tokens: {cap}}}")
    result = await run(write(tmp_path, text), names=["a"], model=Scripted(write=[*[ValueError("down")] * 15, "x"]), workspace=tmp_path)
    assert result.ok, result.reason                     # 15 worst cases would be more than the cap
