"""Tools over the chat-completions protocol: what goes out, what is read of all the ways to tell calls, what is learned."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from endpoint_calls import called, model_at, request_for, sending
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_server import OpenAIServer
from openai_tool_faults import SHAPES, Calling

from metaflow_agents.models.endpoint.answer import Malformed, Transcript
from metaflow_agents.models.endpoint.learned import learned
from metaflow_agents.models.endpoint.tools import wire_name, wire_names
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall

TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "read", "description": "Reads a file.",
     "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    {"name": "github.search", "description": "", "parameters": {}},
)
CALLS = [{"id": "a1", "name": "read", "arguments": {"path": "a/ü \" b.txt"}},
         {"id": "b2", "name": "github_search", "arguments": {"many": [1, {"x": None}]}},
         {"id": "c3", "name": "read", "arguments": {"path": "c"}}]
MEANT = [("read", CALLS[0]["arguments"]), ("github.search", CALLS[1]["arguments"]), ("read", CALLS[2]["arguments"])]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
# What is read where it is not what was meant.
READ: dict[str, Any] = {
    "function_call": MEANT[:1],
    "no_name": [("", arguments) for _, arguments in MEANT],
    "cut_arguments": [(name, json.dumps(arguments, ensure_ascii=False)[:-4]) for name, arguments in MEANT],
    "broken_arguments": [(name, "{" + json.dumps(arguments, ensure_ascii=False)) for name, arguments in MEANT],
    "list_arguments": [(name, "[1, 2]") for name, _ in MEANT],
    "no_number": [(name, '{"n": NaN}') for name, _ in MEANT],
    "half_characters": [(name, '{"n": "\\ud83d"}') for name, _ in MEANT],
    "too_deep": [(name, "[" * 90_000) for name, _ in MEANT],
    "empty_arguments": [(name, {}) for name, _ in MEANT],
    "null_arguments": [(name, {}) for name, _ in MEANT],
    "no_function": [("", {})] * 3,
    "no_objects": None,                 # there is no call at all
}
IDS = {"no_ids", "empty_ids", "index_0_no_ids", "same_ids", "function_call"}    # where some are made


def asking(model: Any, **more: Any) -> ModelRequest:
    request = request_for(model, **{name: more.pop(name) for name in ("schema", "watch") if name in more})
    return ModelRequest(**{**{name: getattr(request, name) for name in request.__dataclass_fields__}, "tools": TOOLS, **more})


# -- what goes out

async def test_what_goes_out() -> None:
    before = Reply(text="I look.", calls=(ToolCall("x", "github.search", {"q": "ü"}), ToolCall("y", "write", '{"path": "a')))
    then = Reply(text="", calls=(ToolCall("z", "read", {}),))
    async with OpenAIServer() as server:
        model = model_at(server.url)
        messages = ({"role": "user", "content": "hi"}, before.message, before.calls[0].answered("found"),
                    before.calls[1].answered("these are no arguments"), then.message, then.calls[0].answered(""))
        assert isinstance(await called(model, asking(model, messages=messages)), Reply)
        sent = server.bills[0].request
        assert isinstance(await called(model, replace(asking(model, messages=messages), one_call=True)), Reply)
        assert server.bills[1].request["parallel_tool_calls"] is False
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": TOOLS[0]["parameters"]}},
        {"type": "function", "function": {"name": "github_search", "parameters": {"type": "object", "properties": {}}}}]
    assert sent["parallel_tool_calls"] is True
    assert sent["messages"][1:] == [
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "github_search", "arguments": '{"q":"ü"}'}},
            {"id": "y", "type": "function",
             "function": {"name": "write", "arguments": '{"not_a_json_object":"{\\"path\\": \\"a"}'}}]},
        {"role": "tool", "tool_call_id": "x", "content": "found"},
        {"role": "tool", "tool_call_id": "y", "content": "these are no arguments"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "z", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "z", "content": ""}]


async def test_without_tools_nothing_of_them_goes_out() -> None:
    async with OpenAIServer() as server:
        model = model_at(server.url)
        await called(model, request_for(model))
        assert set(server.bills[0].request) == {"model", "messages", "max_completion_tokens", "stream", "stream_options"}


async def test_a_parameter_of_the_model_says_whether_calls_are_parallel() -> None:
    async with OpenAIServer() as server:
        model = model_at(server.url, parameters={"parallel_tool_calls": False})
        await called(model, asking(model))
        assert server.bills[0].request["parallel_tool_calls"] is False


# -- what is read

@pytest.mark.parametrize("usage", ["plain", "every"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_calls_are_read_however_they_are_told(shape: str, streamed: bool, usage: str) -> None:
    pieces: list[str] = []
    async with OpenAIServer(lambda asked: Calling(CALLS, "I look."), plan={1: shape}, usage=usage) as server:
        model = sending(model_at(server.url, max_tokens=2**17), streamed=streamed)
        reply = await called(model, asking(model, watch=pieces.append if streamed else None))
        assert isinstance(reply, Reply), reply
        assert (reply.text, reply.value) == ("I look.", None) and "".join(pieces) == ("I look." if streamed else "")
        assert reply.tokens == server.tokens and not reply.estimated
    read = READ.get(shape, MEANT)
    assert [(call.name, call.arguments) for call in reply.calls] == (read or [])
    assert reply.cut == (shape == "cut_arguments")
    ids = [call.id for call in reply.calls]
    assert len(set(ids)) == len(ids) and all(ids)
    if shape not in IDS and read is not None and shape != "another_id_each_piece":
        assert ids == ["a1", "b2", "c3"]
    assert Reply.read(json.loads(json.dumps({"text": reply.text, "calls": [call.told() for call in reply.calls]}))).calls \
        == reply.calls


async def test_calls_without_text_have_an_empty_one() -> None:
    async with OpenAIServer(lambda asked: Calling(CALLS[:1])) as server:
        model = model_at(server.url)
        for watch in (None, lambda text: None):
            reply = await called(sending(model, streamed=watch is not None), asking(model, watch=watch))
            assert isinstance(reply, Reply) and reply.text == reply.said == "" and len(reply.calls) == 1


async def test_a_cut_call_without_arguments_is_not_one_without_any() -> None:
    shape = SHAPES["empty_arguments"]
    SHAPES["cut_before_arguments"] = type(shape)(shape.entry, shape.pieces, "length")
    try:
        async with OpenAIServer(lambda asked: Calling(CALLS[:2]), plan={1: "cut_before_arguments"}) as server:
            model = model_at(server.url)
            reply = await called(model, asking(model))
            assert isinstance(reply, Reply) and [call.arguments for call in reply.calls] == [{}, ""] and reply.cut
    finally:
        del SHAPES["cut_before_arguments"]


async def test_calls_that_nobody_offered_are_no_answer() -> None:
    async with OpenAIServer(lambda asked: Calling(CALLS)) as server:
        model = model_at(server.url)
        failed = await called(model, request_for(model))
        assert isinstance(failed, CallFailed) and failed.then == "again" and "it was offered none" in failed.told


async def test_an_unknown_name_is_told_as_it_came() -> None:
    async with OpenAIServer(lambda asked: Calling([{"id": "a", "name": "raed", "arguments": {}}])) as server:
        model = model_at(server.url)
        reply = await called(model, asking(model))
        assert isinstance(reply, Reply) and reply.calls[0].name == "raed"


async def test_ids_are_made_anew_where_an_earlier_turn_has_them() -> None:
    earlier = Reply(text="", calls=(ToolCall("a1", "read", {}),))
    async with OpenAIServer(lambda asked: Calling(CALLS[:2])) as server:
        model = model_at(server.url)
        reply = await called(model, asking(model, messages=({"role": "user", "content": "hi"}, earlier.message,
                                                            earlier.calls[0].answered("a"))))
        assert isinstance(reply, Reply) and [call.id for call in reply.calls] == ["call_1", "b2"]


async def test_what_comes_with_a_call_goes_back_with_it() -> None:
    """Gemini refuses a conversation whose calls have lost their signatures."""
    signed = {"google": {"thought_signature": "c2ln"}}
    shape = SHAPES["plain"]

    def entry(call: dict[str, Any], index: int) -> dict[str, Any]:
        return {"index": index, **shape.entry(call, index), "extra_content": signed}

    SHAPES["signed"] = type(shape)(entry, lambda calls: ([entry(call, at)] for at, call in enumerate(calls)))
    try:
        async with OpenAIServer(lambda asked: Calling(CALLS[:1]), plan={1: "signed", 3: "signed"}) as server:
            model = model_at(server.url)
            for watch in (None, lambda text: None):
                reply = await called(sending(model, streamed=watch is not None), asking(model, watch=watch))
                assert isinstance(reply, Reply)
                messages = ({"role": "user", "content": "hi"}, reply.message, reply.calls[0].answered("a"))
                await called(model, asking(model, messages=messages))
                assert server.bills[-1].request["messages"][1]["tool_calls"][0]["extra_content"] == signed
    finally:
        del SHAPES["signed"]


@pytest.mark.parametrize("shape", SHAPES)
@settings(deadline=None)
@given(size=st.integers(1, 40), end=st.integers(0, 10_000))
def test_a_stream_that_ends_in_the_middle_of_a_call_gives_none(shape: str, size: int, end: int) -> None:
    deltas = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in SHAPES[shape].deltas(CALLS)]
    body = b"".join(b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas)[:end]
    transcript = Transcript()
    for at in range(0, len(body), size):
        transcript.feed(body[at:at + size])
    with pytest.raises(Malformed, match="its stream end"):
        transcript.answer()


# -- what is learned

async def test_an_endpoint_that_does_not_know_parallel_calls_is_asked_without() -> None:
    async with OpenAIServer(lambda asked: Calling(CALLS), parallel=False) as server:
        model = model_at(server.url)
        failed = await called(model, asking(model))
        assert isinstance(failed, CallFailed) and (failed.then, failed.charged) == ("again", 0)
        assert isinstance(await called(model, asking(model)), Reply)
        assert "parallel_tool_calls" not in server.bills[-1].request and "tools" in server.bills[-1].request


async def test_tools_and_a_form_together() -> None:
    """OpenAI takes both: the answer is either calls, or what the schema says."""
    async with OpenAIServer(lambda asked: Calling(CALLS[:1]) if len(asked["messages"]) == 1 else '{"n":1}') as server:
        model = model_at(server.url)
        first = await called(model, asking(model, schema=SCHEMA))
        assert isinstance(first, Reply) and first.calls
        then = await called(model, asking(model, schema=SCHEMA, messages=(
            {"role": "user", "content": "hi"}, first.message, first.calls[0].answered("x"))))
        assert isinstance(then, Reply) and then.text == '{"n":1}' and not then.calls
        assert all("response_format" in bill.request for bill in server.bills)


async def test_an_endpoint_that_does_not_take_both_is_asked_for_the_form_in_words() -> None:
    async with OpenAIServer(tools="alone") as server:
        model = model_at(server.url)
        failed = await called(model, asking(model, schema=SCHEMA))
        assert isinstance(failed, CallFailed) and (failed.then, failed.charged, failed.after) == ("again", 0, 0.0)
        assert "does not take tools together with strict JSON schema" in failed.told
        assert isinstance(await called(model, asking(model, schema=SCHEMA)), Reply)
        assert "tools" in server.bills[-1].request and "response_format" not in server.bills[-1].request
        assert isinstance(await called(model, request_for(model, schema=SCHEMA)), Reply)
        assert server.bills[-1].request["response_format"]["json_schema"]["strict"]       # without tools as before


@pytest.mark.parametrize("told", [
    "registry.ollama.ai/library/gemma:2b does not support tools",
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "tools param requires --jinja flag", "Unsupported param: tools", "`tool calling` is not supported with this model",
    "Unsupported parameter: 'tools' is not supported with this model.", "Function calling is not enabled for models/gemma-3",
    "No endpoints found that support tool use. To learn more about provider routing",
    "deepseek-reasoner does not support Function Calling",
])
async def test_an_endpoint_without_tools_is_asked_in_text(told: str) -> None:
    async with OpenAIServer(tools=told) as server:
        model = model_at(server.url)
        assert model.traits.native_tools
        failed = await called(model, asking(model))
        assert isinstance(failed, CallFailed) and (failed.then, failed.refused, failed.after) == ("again", True, 0.0), failed.told
        assert "`tools: text` of the model" in failed.told
        assert not model.traits.native_tools and "tools in the text form" in learned(server.url, "m").told()


@pytest.mark.parametrize("told", ["Invalid schema for function 'read': In context=(), 'path' is wrong",
                                  "Invalid 'messages[1].tool_calls': too many"])
async def test_a_refusal_of_one_tool_is_told_and_teaches_nothing(told: str) -> None:
    async with OpenAIServer(tools=told) as server:
        model = model_at(server.url)
        failed = await called(model, asking(model))
        assert isinstance(failed, CallFailed) and failed.then == "fail" and told in failed.told and model.traits.native_tools


async def test_a_call_that_the_server_could_not_read_is_asked_for_again() -> None:
    told = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
    async with OpenAIServer(tools=told) as server:
        model = model_at(server.url)
        failed = await called(model, asking(model))
        assert isinstance(failed, CallFailed) and (failed.then, failed.charged) == ("again", None) and model.traits.native_tools


# -- names

@settings(deadline=None)
@given(st.lists(st.text(max_size=80), max_size=12))
def test_names_on_the_wire_fit_and_can_be_read_back(names: list[str]) -> None:
    wires = wire_names(names)
    assert set(wires) == set(names) and len(set(wires.values())) == len(wires)
    for name, wire in wires.items():
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wire)
        assert wire == name or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)


def test_names_that_would_be_alike_stay_apart() -> None:
    wires = wire_names(["a.b", "a_b", "a/b", "x" * 70, "x" * 71])
    assert wires["a_b"] == "a_b" == wire_name("a.b") and len(set(wires.values())) == 5
    assert wire_names(["a.b"]) == {"a.b": "a_b"}
