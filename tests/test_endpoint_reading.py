"""Usage blocks, waits and refusals in the forms in which servers tell them; streams cut anywhere."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metaflow_agents.models.endpoint.answer import Malformed, ToldError, Transcript, is_stream, whole_answer
from metaflow_agents.models.endpoint.body import PreparedRequest
from metaflow_agents.models.endpoint.learned import Learned
from metaflow_agents.models.endpoint.refusals import Asker, Refusal, refused, told_error
from metaflow_agents.models.endpoint.usage import usage_of
from metaflow_agents.models.endpoint.waits import asked_wait
from metaflow_agents.models.faults import CallFailed


@pytest.mark.parametrize(("told", "read"), [
    (None, None), ({}, None), ("x", None), ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
    ({"prompt_tokens": 5}, None), ({"prompt_tokens": None, "completion_tokens": 4}, None), ({"prompt_tokens": True}, None),
    ({"prompt_tokens": -5, "completion_tokens": 1}, None), ({"prompt_tokens": float("nan"), "completion_tokens": 1}, None),
    ({"prompt_tokens": 5, "completion_tokens": 0}, (5, 0, 0)), ({"prompt_tokens": 5, "total_tokens": 9}, (5, 4, 0)),
    ({"prompt_tokens": 5.0, "completion_tokens": 2.2}, (5, 3, 0)), ({"prompt_tokens": "5", "completion_tokens": "2"}, (5, 2, 0)),
    ({"input_tokens": 5, "output_tokens": 2}, (5, 2, 0)),
    ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 50}, (5, 45, 0)),
    ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 0}, (5, 2, 0)),
    ({"prompt_tokens": 5, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}, (5, 9, 0)),
    ({"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 7}}, (5, 9, 0)),
    ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, (9, 2, 4)),
    ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 4}, (9, 2, 4)),
    ({"prompt_tokens": 9, "completion_tokens": 2, "cache_read_input_tokens": 40}, (49, 2, 40)),
])
def test_a_usage_block(told: Any, read: tuple[int, int, int] | None) -> None:
    usage = usage_of(told)
    assert (None if usage is None else (usage.tokens_in, usage.tokens_out, usage.tokens_cached)) == read


SERVER_CLOCK = "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(("headers", "body", "wait"), [
    ({}, "", None), ({"retry-after": "7"}, "", 7), ({"retry-after": "0.5"}, "", 0.5), ({"retry-after": "1.5s"}, "", 1.5),
    ({"retry-after": "-3"}, "", 0), ({"retry-after": "soon"}, "", None), ({"retry-after": "inf"}, "", None),
    ({"retry-after-ms": "250", "retry-after": "7"}, "", 0.25),
    ({"retry-after": "Thu, 01 Jan 2026 00:00:42 GMT", "date": SERVER_CLOCK}, "", 42),
    ({"retry-after": SERVER_CLOCK}, "", 0),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "1h",
      "x-ratelimit-remaining-tokens": "9000"}, "", 360),
    ({"x-ratelimit-reset-tokens": "120ms"}, "", 0.12), ({"x-ratelimit-reset": "2", "x-ratelimit-remaining": "199"}, "", None),
    ({}, "Rate limit reached … Please try again in 1.2s. Visit …", 1.2), ({}, "try again in 6m0s", 360),
    ({}, "Please retry in 17.5 seconds", 17.5), ({}, "retry after 5 seconds.", 5), ({}, "try again in 1h2m3s", 3723),
    ({}, '{"error": {"details": [{"retryDelay": "34s"}]}}', 34), ({}, '{"retry_after": 3}', 3), ({}, "wait", None),
])
def test_a_wait(headers: dict[str, str], body: str, wait: float | None) -> None:
    assert asked_wait(headers, body) == (None if wait is None else pytest.approx(wait))


def test_a_wait_told_as_a_moment() -> None:
    assert 8 < (asked_wait({"retry-after": formatdate(time.time() + 10, usegmt=True)}, "") or 0) < 11
    for moment in (time.time() + 10, (time.time() + 10) * 1000):
        headers = {"x-ratelimit-reset": str(int(moment)), "x-ratelimit-remaining": "0"}
        assert 8 < (asked_wait(headers, "") or 0) < 11


def judged(status: int, body: Any, *, form: Any = "strict", key: str | None = "sk-1", headers: dict[str, str] | None = None,
           learned: Learned | None = None) -> CallFailed:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    prepared = PreparedRequest(b"{}", "max_completion_tokens", True, True, form, "s")
    asker = Asker("gpt", "http://x/v1", "MY_KEY", key)
    return refused(Refusal(status, headers or {}, raw), asker, prepared, learned or Learned(), 100)


@pytest.mark.parametrize(("status", "message", "then", "told"), [
    (429, "Rate limit reached for gpt in organization org: Limit 3, Used 3. Please try again in 20s. Add a payment method at "
          "https://platform.openai.com/account/billing.", "again", "for its rate"),
    (429, "You exceeded your current quota, please check your plan and billing. Please retry in 34s.", "again", "for its rate"),
    (429, "You exceeded your current quota, please check your plan and billing details.", "stop", "no money or quota left"),
    (400, "This model's maximum context length is 8192 tokens", "fail", "too long for gpt: 2 bytes, and 100 tokens"),
    (400, "the request exceeds the available context size, try increasing it", "fail", "too long"),
    (413, "Request too large for model", "fail", "too long"), (400, "max_tokens is too large: 100", "stop", "set `max_tokens`"),
    (400, "Invalid model: gpt", "stop", "knows no model"), (404, "model 'gpt' not found, try to pull it", "stop", "knows no"),
    (403, "Your input was flagged by moderation", "fail", "content filter"), (403, "forbidden", "stop", "into MY_KEY"),
    (405, "Method Not Allowed", "stop", "most end in `/v1`"), (418, "I am a teapot", "fail", "refused the request (418)"),
    (400, "This response_format type is unavailable now", "again", "asked by JSON mode"),
    (400, "Invalid schema for response_format 'answer': In context=()", "again", "this schema as strict JSON schema"),
    (500, "failed to parse grammar", "again", "does not take this schema"), (409, "conflict", "again", "failed (409)"),
    (503, "Model is loading", "again", "failed (503)"), (504, "Gateway Timeout", "again", "failed (504)"),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"],
                       "msg": "Extra inputs are not permitted"}]}, "again", "asked with `max_tokens` from now on"),
])
def test_a_refusal(status: int, message: Any, then: str, told: str) -> None:
    failed = judged(status, {"error": {"message": message}} if isinstance(message, str) else message)
    assert failed.then == then and told in failed.told, failed.told
    assert failed.charged == (None if status == 504 else 0)


def test_a_refusal_tells_no_key_and_takes_one_line() -> None:
    failed = judged(401, {"error": {"message": "Incorrect API key\nprovided: sk-1"}})
    assert "Incorrect API key provided: …" in failed.told and "\n" not in failed.told
    assert len(judged(418, b"x" * 10**5).told) < 500
    assert judged(502, b"<html><head><title>Bad gateway</title></head></html>").told.endswith("(502): Bad gateway")
    assert "no key was sent: put one into MY_KEY" in judged(401, b"", key=None).told


def test_an_error_in_an_answers_place() -> None:
    asker, prepared = Asker("gpt", "http://x/v1", "K", None), PreparedRequest(b"{}", "max_tokens", False, True)
    for error, begun, then, charged in (
            ({"code": 429, "message": "slow down"}, False, "again", 0), ({"code": 502}, False, "again", None),
            ({"code": 429}, True, "again", None), ("overloaded", False, "again", None),
            ({"code": "401", "message": "no"}, False, "stop", 0)):
        failed = told_error(error, begun, asker, prepared, Learned(), 9)
        assert (failed.then, failed.charged) == (then, charged), error


STREAM = b"".join(b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]},
                                         ensure_ascii=False).encode() + b"\n\n" for piece in ("Wör", "ds 😊", " and\nmore")) \
    + b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\r\n\r\n' \
    + b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\r\rdata: [DONE]\n\n'


@pytest.mark.one_in(4)
@settings(deadline=None)
@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=8), st.integers(0, len(STREAM)))
def test_a_stream_in_any_pieces_and_cut_anywhere(places: list[int], end: int) -> None:
    transcript, pieces = Transcript(None), sorted({0, *places, len(STREAM)})
    for start, stop in pairwise(pieces):
        transcript.feed(STREAM[start:stop])
    assert transcript.answer().text == "Wörds 😊 and\nmore" and transcript.answer().usage is not None
    cut = Transcript(None)
    cut.feed(STREAM[:end])
    if cut.complete:
        assert cut.answer().text == "Wörds 😊 and\nmore" and end > STREAM.index(b'"stop"')
    else:
        with pytest.raises(Malformed):
            cut.answer()


def test_streams_that_are_hardly_any() -> None:
    pretty = Transcript(None)
    pretty.feed(b': hi\nevent: x\nid: 1\ndata: {"choices":\ndata:  [{"delta": {"content": "a"},\n'
                b'data: "finish_reason": "stop"}]}\n\n')
    assert pretty.answer().text == "a"
    tight = Transcript(None)
    tight.feed(b'data:{"choices":[{"delta":{"content":"a"}}]}\ndata:{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}\n')
    assert tight.answer().text == "ab"
    halves = Transcript(None)
    halves.feed(b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
                b'data: {"choices":[{"delta":{"content":"\\ude0a \\ud83d"},"finish_reason":"stop"}]}\n\n')
    assert halves.answer().text == "😊 �"
    for broken in (b"data: {nonsense\n\n", b"data: x\n" * 500, b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'):
        with pytest.raises(Malformed):
            Transcript(None).feed(broken)
    with pytest.raises(ToldError):
        Transcript(None).feed(b'event: error\ndata: {"message": "overloaded"}\n\n')


def test_an_answer_that_is_none() -> None:
    for body in (b"", b"null", b"[]", b"{}", b'{"choices": null}', b'{"choices": [{}]}', b'{"choices": [{"message": 3}]}',
                 b"<html>", b"\xff", b"[" * 10**5):
        with pytest.raises(Malformed):
            whole_answer(body)
    with pytest.raises(ToldError):
        whole_answer(b'{"object": "error", "message": "no", "code": 400}')
    assert whole_answer(b'\xef\xbb\xbf{"choices": [{"message": {"content": "a\nb"}, "finish_reason": null}]}').text == "a\nb"
    starts = {b"": None, b"da": None, b" data: {": True, b": x": True, b'{"': False, b"<html>": False}
    assert {start: is_stream(start) for start in starts} == starts
