"""Every kind of endpoint fault, at the first, a middle and the last call of a run: the right retry or the right clear stop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import model_at, way
from openai_faults import FAULTS
from openai_server import OpenAIServer
from patience import PATIENCE
from scripted import events, write

from metaflow_agents import run
from metaflow_agents.api.run import resume
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.schema.event import Reserved, Settled

SOP = """
    sop: small
    inputs: {topic: string}
    roles: {ann: {profile: You write.}}
    artifacts:
      outline: {schema: {title: string, 'note?': string, points: [string]}}
      draft: {}
      report: {}
    outputs: [outline, report]
    defaults: {steps: {retries: 1}}
    steps:
      plan: {role: ann, needs: [topic], makes: outline}
      write: {role: ann, needs: [outline], makes: draft}
      close: {role: ann, needs: [draft], makes: report}
"""
OUTLINE = {"title": "Tea", "note": None, "points": ["hot", "wet"]}
CALLS = 3
# What each fault is followed by: another try at the same call, a fresh attempt, nothing at all (it is no fault), or a stop with
# these words.
AGAIN, ANEW, FINE = "again", "anew", "fine"
FOLLOWS: dict[str, str] = {
    "rate": AGAIN, "rate_seconds": AGAIN, "rate_float": AGAIN, "rate_ms": AGAIN, "rate_date": AGAIN, "rate_reset": AGAIN,
    "rate_said": AGAIN, "error_500": AGAIN, "error_503": AGAIN, "gateway_502": AGAIN, "timeout_408": AGAIN, "early_425": AGAIN,
    "error_in_200": AGAIN, "silence": AGAIN, "reset": AGAIN, "gone": AGAIN, "cut_headers": AGAIN, "cut": AGAIN, "cut_utf8": AGAIN,
    "closed": AGAIN, "comments": AGAIN, "html": AGAIN, "no_choices": AGAIN, "bad_utf8": AGAIN, "malformed": AGAIN, "empty": AGAIN,
    "bad_gzip": AGAIN, "error_in_stream": AGAIN,
    "endless": ANEW, "refusal": ANEW, "filtered": ANEW, "filtered_400": ANEW, "too_long": ANEW,
    "no_done": FINE, "gzip": FINE, "slowly": FINE, "length": FINE,
    "wrong_key": "does not accept the key (401): Incorrect API key provided; no key was sent: put one into OPENAI_API_KEY",
    "forbidden": "does not accept the key (403)", "no_money": "has no money or quota left (402)",
    "quota": "has no money or quota left (429)", "unknown_model": "knows no model `m`", "no_such_path": "most end in `/v1`",
    "redirect": "it points to https://elsewhere.invalid", "rate_hours": "that is longer than a run waits: `sop resume` later",
}

SILENT = ("silence", "comments")            # which end by the adapter's own clock alone


def answer(asked: dict[str, Any]) -> str:
    """The outline as a model of strict mode gives it, or a text."""
    last = asked["messages"][-1]["content"]
    if "Go on exactly where it stopped" in last:
        whole = answer({"messages": asked["messages"][:-2]})
        return whole[len(asked["messages"][-2]["content"]):]
    return json.dumps(OUTLINE, separators=(",", ":")) if "`outline`" in last and "JSON value" in last else "A fine tëxt. " * 12


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of the engine's own choice are short; those that an endpoint asks for are what it asks for."""
    monkeypatch.setattr("metaflow_agents.models.caller.Patience", lambda: Patience(first=0.04, longest=0.2))


def test_every_fault_of_the_server_is_followed_by_something() -> None:
    assert set(FOLLOWS) == set(FAULTS) and sum(then != FINE for then in FOLLOWS.values()) >= 24


@pytest.mark.one_in(12)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_at_the_first_a_middle_and_the_last_call(tmp_path: Path, name: str, streamed: bool) -> None:
    async with asyncio.TaskGroup() as group:
        for position in (1, 2, CALLS):
            folder = tmp_path / str(position)
            folder.mkdir()
            group.create_task(_run(folder, name, position, streamed))


async def _run(folder: Path, name: str, position: int, streamed: bool) -> None:
    path = write(folder, SOP)
    async with OpenAIServer(answer, plan={position: name}) as server:
        endpoint = model_at(server.url, timeout=0.4 if name in SILENT else PATIENCE)
        result = await run(path, topic="tea", model=way(endpoint, streamed=streamed), workspace=folder, name="small")
        settled: list[Settled] = events(folder, "small", Settled)
        failed = [event for event in settled if event.error is not None]
        paid = sum(event.tokens_in + event.tokens_out for event in settled)
        assert paid >= server.tokens                # what the journal says is never less than what the endpoint bills
        if FOLLOWS[name] in (AGAIN, ANEW, FINE):
            assert result.ok, result.reason
            assert result["outline"] == {"title": "Tea", "points": ["hot", "wet"]} and result["report"] == "A fine tëxt. " * 12
            again = [event for event in failed if event.again]
            assert bool(again) == (FOLLOWS[name] == AGAIN), [event.error for event in failed]
            assert bool(failed) == (FOLLOWS[name] != FINE)
            keys = {event.key for event in events(folder, "small", Reserved)}
            assert len(keys) == CALLS + (name == "length") + (FOLLOWS[name] == ANEW), keys
        else:
            assert (result.outcome, result.exit_status) == ("endpoint", 5) and FOLLOWS[name] in result.reason, result.reason
            assert [event.stops for event in failed] == [True] and paid == server.tokens
            server.plan = {}
            assert (await resume("small", workspace=folder, model=endpoint)).ok


async def test_an_address_where_nobody_is_stops_the_run_soon(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        url = server.url
    result = await run(write(tmp_path, SOP), topic="tea", model=model_at(url), workspace=None)
    assert result.outcome == "endpoint" and f"nobody answers at {url}" in result.reason and result.tokens == 0


async def test_an_unknown_model_is_told_with_the_nearest_that_is_known(tmp_path: Path) -> None:
    async with OpenAIServer(answer, models=("gpt-oss-20b", "gpt-oss-120b")) as server:
        model = model_at(server.url, name="gpt-oss-12b")
        result = await run(write(tmp_path, SOP), topic="tea", model=model, workspace=None)
    assert "did you mean `gpt-oss-120b`?" in result.reason and "there is: gpt-oss-20b, gpt-oss-120b" in result.reason


async def test_a_key_is_sent_and_never_told(tmp_path: Path) -> None:
    async with OpenAIServer(answer, key="sk-right") as server:
        assert (await run(write(tmp_path, SOP), topic="tea", model=model_at(server.url, key="sk-right\n"), workspace=None)).ok
        wrong = await run(write(tmp_path, SOP), topic="tea", model=model_at(server.url, key="sk-wrong"), workspace=None)
    assert "put another one into OPENAI_API_KEY" in wrong.reason and "sk-wrong" not in wrong.reason and "Bearer …" in wrong.reason
