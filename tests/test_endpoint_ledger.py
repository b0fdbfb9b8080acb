"""The endpoint's own ledger beside the journal: equal wherever a usage block arrived, elsewhere the journal is never the lower;
and no cap is overrun by one token.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import Unpaced, model_at, request_for, sending, way
from openai_server import Chances, OpenAIServer
from scripted import write

from metaflow_agents import start
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.schema.event import Reserved, Settled

SOP = """
    sop: small
    inputs: {topic: string}
    roles: {ann: {profile: You plan.}, bob: {profile: You write.BUDGET}}
    artifacts:
      plan: {schema: [{name: string, 'why?': string}]}
      parts: {each: string}
      report: {}
    defaults: {steps: {retries: 3}}
    steps:
      think: {role: ann, needs: [topic], makes: plan}
      write: {role: bob, needs: [plan], makes: parts, foreach: {in: plan, key: item.name}}
      close: {role: bob, needs: [parts], makes: report}
"""
PLAN = {"answer": [{"name": "one", "why": None}, {"name": "two", "why": "näh"}, {"name": "three", "why": None}]}
TROUBLE = {"rate": 0.1, "error_500": 0.05, "cut": 0.05, "malformed": 0.1}
FORMATS = (("strict", "schema", "json"), ("json",), ())


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.runtime.handle.Limiters", Unpaced)
    monkeypatch.setattr("metaflow_agents.models.caller.Patience", lambda: Patience(tries=8, first=0.0))


def answer(asked: dict[str, Any]) -> str:
    if "You plan." in asked["messages"][0]["content"]:
        return json.dumps(PLAN if "response_format" in asked else PLAN["answer"], ensure_ascii=False)
    return "Wörds and words. " * 3


async def ran(path: Path, server: OpenAIServer, streamed: bool,
              **options: Any) -> tuple[RunResult, list[Settled], list[Reserved]]:
    endpoint = model_at(server.url, max_tokens=400)
    async with start(path, topic="tea", model=way(endpoint, streamed=streamed), workspace=None, **options) as going:
        result = await going.result()
        events = [event for _, event in going.journal.events(Settled, Reserved)]
    return (result, [event for event in events if isinstance(event, Settled)],
            [event for event in events if isinstance(event, Reserved)])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(50))
async def test_journal_and_ledger_agree(tmp_path: Path, seed: int) -> None:
    usage = ("plain", "groq", "every", "choice", "none")[seed % 5]
    async with OpenAIServer(answer, plan=Chances(seed, TROUBLE), formats=FORMATS[seed % 3], usage=usage,
                            stream_options=seed % 7 != 0) as server:
        result, settled, reserved = await ran(write(tmp_path, SOP.replace("BUDGET", "")), server, streamed=seed % 2 == 1)
        assert result.ok, result.reason
        assert len(server.bills) == len(settled) == len(reserved)
        told = Counter(bill.tokens for bill in server.bills if bill.told)
        known = Counter(event.tokens_in + event.tokens_out for event in settled if not event.estimated and event.tokens_in)
        assert known == told
        assert result.tokens == sum(event.tokens_in + event.tokens_out for event in settled) >= server.tokens
        untold = sum(bill.tokens for bill in server.bills if not bill.told)
        assert sum(event.tokens_in + event.tokens_out for event in settled if event.estimated) >= untold


@pytest.mark.parametrize("streamed", [False, True])
async def test_without_counts_the_worst_case_is_charged(streamed: bool) -> None:
    """And not the length of what came: reasoning that is not shown is billed as well."""
    async with OpenAIServer(answer, usage="none") as server:
        model = sending(model_at(server.url, max_tokens=400), streamed=streamed)
        request = request_for(model, watch=(lambda text: None) if streamed else None)
        worst = model.worst(request)
        reply = await model.ask(request)
    assert reply.estimated and (reply.tokens_in, reply.tokens_out) == worst == (worst[0], 400)


async def _capped(tmp_path: Path, seeds: range) -> set[str]:
    """Runs under random caps; which outcomes there were."""
    seen = set()
    for seed in seeds:
        chance = random.Random(seed)
        cap, own = chance.randint(500, 12000), chance.randint(500, 9000)
        path = write(tmp_path, SOP.replace("BUDGET", f", budget: {{tokens: {own}}}"))
        async with OpenAIServer(answer, plan=Chances(seed, TROUBLE), formats=FORMATS[seed % 3],
                                usage="none" if seed % 4 == 0 else "plain") as server:
            calls = chance.randint(2, 30)
            result, settled, _ = await ran(path, server, streamed=seed % 2 == 1, budget={"tokens": cap, "calls": calls})
            assert server.tokens <= result.tokens <= cap and result.calls <= calls, seed
            of_bob = [event for event in settled if event.key.startswith(("write", "close"))]
            assert sum(event.tokens_in + event.tokens_out for event in of_bob) <= own, seed
            seen.add(result.outcome)
    return seen


@pytest.mark.one_in(8, always=False)
async def test_no_cap_is_overrun_by_one_token(tmp_path: Path) -> None:
    assert {"success", "budget"} <= await _capped(tmp_path, range(60))


@pytest.mark.slow
async def test_no_cap_is_overrun_by_one_token_in_500_runs(tmp_path: Path) -> None:
    assert {"success", "budget"} <= await _capped(tmp_path, range(1000, 1500))
