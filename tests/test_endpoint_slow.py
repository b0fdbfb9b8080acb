"""A slow endpoint: 8 tokens a second, long silences, cut answers, parameters that it ignores. No answer is paid twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from company_desk import IDEA
from endpoint_calls import Unpaced, called, model_at, request_for
from openai_faults import Bill, Out
from openai_server import OpenAIServer
from slow_endpoint import SlowServer, asked_for, slowly
from test_company_endpoint import Content
from test_company_endpoint import answer as staff

from metaflow_agents import start
from metaflow_agents.models.endpoint.body import PreparedRequest
from metaflow_agents.models.endpoint.learned import Learned
from metaflow_agents.models.endpoint.refusals import Asker, Refusal, refused
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import Reply
from metaflow_agents.runtime.handle import RunResult
from metaflow_agents.schema.event import Settled

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(autouse=True)
def _content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.runtime.prepare.choose", lambda *_, **__: Content())
    monkeypatch.setattr("metaflow_agents.runtime.handle.Limiters", Unpaced)


def company(asked: dict[str, Any]) -> str:
    """What the staff says; where it is asked to go on with an answer that was cut, the rest."""
    messages = asked["messages"]
    if "Go on exactly where it stopped" not in messages[-1]["content"]:
        return staff(asked)
    return staff({"messages": messages[:-2]})[len(messages[-2]["content"]):]


async def ran(server: SlowServer, **model: Any) -> tuple[RunResult, list[Settled]]:
    async with server, start("design_first.yaml", idea=IDEA, model=model_at(server.url, **model), workspace=None,
                             budget={"time": 40_000}) as going:
        return await going.result(), [event for _, event in going.journal.events(Settled)]


@pytest.mark.parametrize(("options", "model", "calls"), [
    ({"first": 590.0}, {}, 8),
    ({"first": 590.0, "ignores": ("stream",)}, {}, 8),
    ({"first": 900.0, "rate": 4.0, "ignores": ("stream",)}, {}, 8),
    ({"ignores": ("max_completion_tokens", "max_tokens")}, {"max_tokens": 500}, 8),
    ({"ignores": ("stream", "max_completion_tokens", "response_format")}, {"max_tokens": 500}, 9),
    ({}, {"max_tokens": 500}, 11),
    ({"ignores": ("stream_options",)}, {}, 8),
], ids=["streamed", "in one piece", "slower still", "no end", "in one piece, and no end", "cut", "without counts"])
def test_the_company_finishes_and_no_answer_is_paid_twice(options: dict[str, Any], model: dict[str, Any], calls: int,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    server = SlowServer(company, **options)
    (result, settled), seconds = slowly(ran(server, **model), monkeypatch)
    assert result.ok, result.reason
    asked = asked_for(server.bills)
    assert [one for at, one in enumerate(asked) if one in asked[:at]] == []
    assert len(asked) == calls == len([one for one in settled if one.reply]) and seconds > sum(
        bill.tokens_out for bill in server.bills) / server.rate / 4
    assert result.tokens >= server.tokens               # what is told of an answer that is too long is what it took


def test_only_what_was_cut_off_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal for the rate, a fault of the server, and a connection that is reset in the middle of the third answer."""
    server = SlowServer(company, first=300.0, plan={1: "rate_seconds", 2: "error_500", 5: "error_503"}, breaks=(6,))
    (result, settled), _ = slowly(ran(server), monkeypatch)
    assert result.ok, result.reason
    asked = asked_for(server.bills)
    assert len(asked) == 9 and [one for at, one in enumerate(asked) if one in asked[:at]] == [server.bills[5].request["messages"]]
    assert sum(one.again for one in settled) == 4 and result.tokens >= server.tokens


def test_how_long_it_may_say_nothing_grows_with_the_longest_answer() -> None:
    for more, seconds in (({}, 600 + 8192 / 4), ({"max_tokens": 400}, 700), ({"max_tokens": 400, "timeout": 30}, 30)):
        model = model_at("http://127.0.0.1:9/v1", **more)
        assert model.silence(request_for(model)) == seconds


def test_silence_beyond_that_is_told_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent() -> tuple[Any, Any]:
        async with SlowServer(first=701.0) as server:
            model = model_at(server.url, max_tokens=400)
            first = await called(model, request_for(model))
            server.first = 699.0
            return first, await called(model, request_for(model))

    (first, second), seconds = slowly(silent(), monkeypatch)
    assert isinstance(first, CallFailed) and first.told.endswith("said nothing for 700 s") and first.then == "again"
    assert isinstance(second, Reply) and 1399 < seconds < 1410


# -- what an endpoint can't, and what came whole

@pytest.mark.parametrize(("status", "message"), [
    (400, "Your organization must be verified to stream this model."), (400, "Unsupported parameter: 'stream'"),
    (400, "Unsupported value: 'stream' does not support true with this model."), (422, "Streaming is not supported"),
    (501, "streaming responses are not implemented"), (400, "This model does not support streaming"),
    (400, "`stream` must be false"),
])
@pytest.mark.parametrize("offered", [False, True])
def test_who_does_not_stream_is_asked_in_one_piece(status: int, message: str, offered: bool) -> None:
    learned = Learned()
    prepared = PreparedRequest(b"{}", "max_tokens", True, True, None, offered=offered)
    refusal = Refusal(status, {}, json.dumps({"error": {"message": message}}).encode())
    failed = refused(refusal, Asker("m", "http://x/v1", "K", None), prepared, learned, 9)
    assert (failed.then, failed.charged, failed.after, failed.refused) == ("again", 0, 0.0, True), failed.told
    assert not learned.streams(tools=offered) and learned.tools == "native" and learned.streams(tools=False) is offered


@pytest.mark.parametrize("message", ["stream_options: Extra inputs are not permitted", "upstream does not support it",
                                     "Invalid parameter: messages"])
def test_other_refusals_say_nothing_of_streams(message: str) -> None:
    learned = Learned()
    refused(Refusal(400, {}, json.dumps({"error": {"message": message}}).encode()), Asker("m", "http://x/v1", "K", None),
            PreparedRequest(b"{}", "max_tokens", True, True, None), learned, 9)
    assert learned.stream


async def test_who_tells_counts_in_whole_answers_alone_is_asked_for_these() -> None:
    async with OpenAIServer(stream_options=False) as server:
        model = model_at(server.url)
        for _ in range(4):
            await called(model, request_for(model))
        assert [bill.request.get("stream", False) for bill in server.bills] == [True, True, False, False]
        assert [bill.told for bill in server.bills] == [False, False, True, True]
    async with OpenAIServer(usage="none") as server:
        model = model_at(server.url)
        for _ in range(4):
            await called(model, request_for(model))
        assert [bill.request.get("stream", False) for bill in server.bills] == [True, False, True, True]


class Unending(OpenAIServer):
    """Its answers are whole, and their connections end as no connection should."""

    sent: Callable[[bytes], bytes] = staticmethod(bytes)

    async def _answered(self, asked: dict[str, Any], bill: Bill, out: Out) -> None:
        bill.tokens_out = 2
        body = self.sent(json.dumps(self.whole(asked, '{"a": 1}', "stop", bill)).encode())
        out.head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        out.piece(body)
        await out.cut()


async def test_a_whole_answer_is_taken_whatever_becomes_of_its_connection() -> None:
    async with Unending() as server:
        model = model_at(server.url)
        reply = await called(model, request_for(model, schema=SCHEMA))
        assert isinstance(reply, Reply) and reply.text == '{"a": 1}' and len(server.bills) == 1
        server.sent = lambda body: body[:-1]
        assert isinstance(await called(model, request_for(model, schema=SCHEMA)), CallFailed)


async def test_counts_that_no_call_can_have_are_none() -> None:
    async with OpenAIServer() as server:
        server.counts = lambda bill: {"prompt_tokens": 9, "completion_tokens": 10**15}  # type: ignore[method-assign]
        model = model_at(server.url)
        reply = await called(model, request_for(model))
    assert isinstance(reply, Reply) and reply.estimated and reply.tokens_out == 8192
