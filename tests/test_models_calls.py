"""Tool calls on their way through a run: asked, journalled, found again, recorded, replayed; whoever the model is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import model_at
from openai_server import OpenAIServer
from openai_tool_faults import Calling

from metaflow_agents.errors import AttemptFailed, EndpointRefused, PromptChanged
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.models.budget import Budgets
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.dry import DryModel
from metaflow_agents.models.manual import FolderModel, conversation
from metaflow_agents.models.port import Model, ModelRequest, Reply, ToolCall
from metaflow_agents.models.python import PythonModel
from metaflow_agents.models.recording import RecordedCall, Recording, read_recording, recorded
from metaflow_agents.models.replay import ReplayModel, ReplayOr
from metaflow_agents.models.text_form import in_text
from metaflow_agents.schema.event import Fired, Reserved, RunOpened, Settled
from metaflow_agents.views.event_log import full
from metaflow_agents.views.page import Page

TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "read", "description": "Reads a file.",
     "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},)
KEY = "write@1~0/turn.0"
REQUEST = ModelRequest(key=KEY, role="ann", step="write", model="m", tools=TOOLS, max_tokens=900,
                       messages=({"role": "system", "content": "You write."}, {"role": "user", "content": "Do it."}))
CALLS = (ToolCall("call_0", "read", {"path": "ü"}), ToolCall("call_1", "raed", '{"path": "a'))
BLOCK = 'I look.\n```tool\n{"name": "read", "arguments": {"path": "ü"}}\n```\n' \
    '```tool\n{"name": "raed", "arguments": "{\\"path\\": \\"a"}\n```'


def opened(path: Path) -> Journal:
    return Journal.open(path) if path.exists() else Journal.create(path)


@asynccontextmanager
async def a_run(path: Path) -> AsyncIterator[tuple[Caller, Journal]]:
    """A run in which one activation is under way, begun or gone on with."""
    async with opened(path) as journal:
        if not journal.last:
            await journal.append(RunOpened(run=path.stem, sop="", compiled="", sources={}, entry=""),
                                 Fired(step="write", round=1, read={}))
        bus = Bus(journal)
        try:
            yield Caller(bus, Budgets()), journal
        finally:
            bus.close()


async def asked(path: Path, model: Model, request: ModelRequest = REQUEST) -> Reply:
    async with a_run(path) as (caller, _):
        return await caller.ask(model, request)


def stored(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The requests and the replies of a run."""
    journal = Journal.read(path)
    return ([json.loads(journal.blob(event.request)) for _, event in journal.events(Reserved)],
            [json.loads(journal.blob(event.reply)) for _, event in journal.events(Settled) if event.reply])


def recording_of(path: Path) -> Recording:
    with RawJournal(path) as journal:
        return recorded(journal)


class Person:
    """Answers in text, as one without tool calls does."""

    name = "person"

    def __init__(self, said: str) -> None:
        self.said, self.asked = said, list[ModelRequest]()
        self.traits = FolderModel.traits

    async def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return Reply(text=self.said, tokens_in=3, tokens_out=4)


def native(calls: tuple[ToolCall, ...] = CALLS, text: str = "I look.") -> Model:
    return PythonModel("m", lambda request: Reply(text=text, calls=calls, tokens_in=3, tokens_out=4))


# -- journal, resume, recording, replay

@pytest.mark.parametrize("form", ["native", "text"])
async def test_calls_are_journalled_found_again_recorded_and_replayed(tmp_path: Path, form: str) -> None:
    model = native() if form == "native" else Person(BLOCK)
    first = await asked(tmp_path / "a.db", model)
    assert first == Reply(text="I look.", calls=CALLS, tokens_in=3, tokens_out=4)

    async def nobody(request: ModelRequest) -> str:
        raise AssertionError("it was answered before")
    assert await asked(tmp_path / "a.db", PythonModel("m", nobody)) == first

    recording = recording_of(tmp_path / "a.db")
    (tmp_path / "a.jsonl").write_bytes(b'{"recording":1}\n' + b"".join(list(recording.lines())[1:]))
    for read in (recording, read_recording(tmp_path / "a.jsonl")):
        again = tmp_path / f"{read.name}.again.db"
        assert await asked(again, ReplayModel("replay:a", read)) == first
        strict = ReplayModel("replay:a", read)
        assert await asked(again.with_suffix(".or.db"), ReplayOr(strict, PythonModel("m", nobody))) == first
        with pytest.raises(EndpointRefused, match="this prompt changed"):
            await asked(again.with_suffix(".other.db"), strict, replace(REQUEST, tools=({"name": "write"},)))
    assert stored(tmp_path / "a.db")[1][0]["calls"] == [call.told() for call in CALLS]


async def test_a_request_stands_in_the_journal_as_it_was_sent(tmp_path: Path) -> None:
    person = Person(BLOCK)
    reply = await asked(tmp_path / "a.db", person)
    goes_on = replace(REQUEST, key="write@1~0/turn.1", messages=(
        *REQUEST.messages, reply.message, *(call.answered(BLOCK) for call in reply.calls)))
    then = await asked(tmp_path / "a.db", Person("Done."), goes_on)
    assert then.text == "Done." and then.calls == ()        # a result that quotes a call makes none
    requests, _ = stored(tmp_path / "a.db")
    assert requests[0] == json.loads(person.asked[0].stored()) and requests[0]["tools"] == []
    assert all(set(message) == {"role", "content"} for request in requests for message in request["messages"])
    assert [message["role"] for message in requests[1]["messages"]] == ["system", "user", "assistant", "user"]


async def test_other_messages_or_tools_are_another_prompt(tmp_path: Path) -> None:
    reply = await asked(tmp_path / "a.db", native())
    goes_on = replace(REQUEST, messages=(*REQUEST.messages, reply.message, CALLS[0].answered("x")))
    other = replace(goes_on, messages=(*REQUEST.messages, reply.message, CALLS[0].answered("y")))
    assert len({one.digest for one in (REQUEST, goes_on, other, in_text(goes_on), in_text(other))}) == 5
    assert goes_on.worst_tokens > REQUEST.worst_tokens > replace(REQUEST, tools=()).worst_tokens
    with pytest.raises(PromptChanged):
        await asked(tmp_path / "a.db", native(), goes_on)


def test_replies_without_calls_keep_their_bytes() -> None:
    line = RecordedCall("k", "p", "m", {"messages": [], "schema": None, "tools": []}, Reply(text="t", tokens_in=1)).line()
    assert line == b'{"key":"k","model":"m","prompt":"p","reply":{"text":"t","tokens_in":1}}\n'
    request = replace(REQUEST, tools=())
    assert request.digest == "facb7c9e359b946ecbb26303f06d5a36"      # as before there were tools
    assert request.prompt == "4a346309ad5b9272b86b60b70d07d00b"


@pytest.mark.parametrize(("reply", "told"), [
    (Reply(value={"a": 1}, calls=CALLS), "a reply with calls has a text"),
    (Reply(text="", value=1, calls=CALLS), "a reply with calls has a text"),
    (Reply(text="", calls=(CALLS[0], CALLS[0])), "do not tell them apart: 'call_0', 'call_0'"),
    (Reply(text="", calls=({"name": "read"},)), "no ToolCall"),        # type: ignore[arg-type]
    (Reply(text="", calls=(ToolCall("a", "read", {"x": float("nan")}),)), "gave what is not JSON"),
])
async def test_calls_that_are_none_are_told(tmp_path: Path, reply: Reply, told: str) -> None:
    class Odd:
        name = "odd"

        async def ask(self, request: ModelRequest) -> Reply:
            return reply

    with pytest.raises(AttemptFailed, match=told):
        await asked(tmp_path / "a.db", Odd())


@pytest.mark.parametrize("model", [native(), Person(BLOCK)], ids=["native", "text"])
async def test_nobody_calls_what_was_not_offered(tmp_path: Path, model: Model) -> None:
    plain = replace(REQUEST, tools=())
    if isinstance(model, Person):
        assert await asked(tmp_path / "a.db", model, plain) == Reply(text=BLOCK, tokens_in=3, tokens_out=4)
    else:
        with pytest.raises(AttemptFailed, match="called a tool, and it was offered none"):
            await asked(tmp_path / "a.db", model, plain)


# -- endpoints

@pytest.mark.parametrize("how", ["native", "written", "learned"])
async def test_an_endpoint_calls_in_either_form(tmp_path: Path, how: str) -> None:
    def answer(request: dict[str, Any]) -> Any:
        if "tools" in request:
            return Calling([{"id": "x7", "name": "read", "arguments": {"path": "a"}}], "I look.")
        return 'I look.\n\n```tool\n{"name": "read", "arguments": {"path": "a"}}\n```'

    async with OpenAIServer(answer, tools="m does not support tools" if how == "learned" else "any") as server:
        model = model_at(server.url, max_tokens=900, **({"tools": "text"} if how == "written" else {}))
        request = replace(REQUEST, model=model.name)
        reply = await asked(tmp_path / "a.db", model, request)
        id_ = "x7" if how == "native" else "call_0"
        assert (reply.text, reply.calls) == ("I look.", (ToolCall(id_, "read", {"path": "a"}),))
        requests, _ = stored(tmp_path / "a.db")
        assert [bool(one["tools"]) for one in requests] == {"native": [True], "written": [False], "learned": [True, False]}[how]
        assert ["tools" in bill.request for bill in server.bills] == [bool(one["tools"]) for one in requests]
        journal = Journal.read(tmp_path / "a.db")
        settled = [event for _, event in journal.events(Settled)]
        assert sum(event.tokens_in + event.tokens_out for event in settled) == server.tokens
        assert [event.calls for event in settled] == ([0, 1] if how == "learned" else [1])
    assert await asked(tmp_path / "a.db", model_at("http://127.0.0.1:9/v1"), request) == reply     # whatever is learned by then


async def test_in_text_no_answer_is_held_to_a_schema_that_forbids_calls(tmp_path: Path) -> None:
    async with OpenAIServer(lambda asked: '{"n":1}') as server:
        model = model_at(server.url, tools="text", max_tokens=900)
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        reply = await asked(tmp_path / "a.db", model, replace(REQUEST, model=model.name, schema=schema))
        assert reply.text == '{"n":1}' and "response_format" not in server.bills[0].request


async def test_a_cut_block_is_a_call_without_arguments(tmp_path: Path) -> None:
    said = '```tool\n{"name": "read", "arguments": {"path": "' + "a" * 900
    async with OpenAIServer(lambda asked: said) as server:
        model = model_at(server.url, tools="text", max_tokens=100)
        reply = await asked(tmp_path / "a.db", model, replace(REQUEST, model=model.name, max_tokens=100))
        assert reply.cut and reply.text == "" and [(call.name, type(call.arguments)) for call in reply.calls] == [("read", str)]


# -- the other models

@pytest.mark.parametrize(("answer", "text", "calls"), [
    (ToolCall("", "read", {"path": "a"}), "", [("call_0", "read", {"path": "a"})]),
    ([ToolCall("", "read", {}), ToolCall("mine", "read", {})], "", [("call_0", "read", {}), ("mine", "read", {})]),
    (["I look.", ToolCall("", "read", {}), "So."], "I look.\n\nSo.", [("call_0", "read", {})]),
    ({"calls": [{"name": "read", "arguments": {"path": "a"}}, {"name": "read"}]}, "",
     [("call_0", "read", {"path": "a"}), ("call_1", "read", {})]),
    ({"calls": [{"name": "read", "arguments": "broken"}], "text": "I look."}, "I look.", [("call_0", "read", "broken")]),
    (Reply(text="I look.", calls=(ToolCall("", "read", {}),)), "I look.", [("call_0", "read", {})]),
])
async def test_a_function_calls_tools(tmp_path: Path, answer: Any, text: str, calls: list[Any]) -> None:
    offered: list[Any] = []

    def function(request: ModelRequest) -> Any:
        offered.append(request.tools)
        return answer

    reply = await asked(tmp_path / "a.db", PythonModel("m", function))
    assert (reply.text, [(call.id, call.name, call.arguments) for call in reply.calls]) == (text, calls)
    assert offered == [TOOLS] and reply.tokens_out > 0


@pytest.mark.parametrize(("tools", "schema"), [
    ((), None), (TOOLS, {"type": "object", "properties": {"calls": {"type": "array"}}})])
async def test_a_value_that_looks_like_calls_stays_a_value(tools: Any, schema: Any) -> None:
    value = {"calls": [{"name": "read"}]}
    reply = await PythonModel("m", lambda request: value).ask(replace(REQUEST, tools=tools, schema=schema))
    assert reply.value == value and reply.calls == ()


@pytest.mark.parametrize("answer", [{"calls": [{"nam": "read"}]}, [ToolCall("", "read", {}), 3], [ToolCall("", "read", 3)]])
async def test_a_function_is_told_how_to_call(answer: Any) -> None:
    with pytest.raises(AttemptFailed, match=r"returned a call that is none.*write ToolCall"):
        await PythonModel("m", lambda request: answer).ask(REQUEST)


async def test_a_person_is_shown_the_tools_once_and_calls_in_text(tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    model = FolderModel("manual:desk", folder, poll=0.01)
    shown: list[str] = []

    class Desk(FolderModel):
        async def _awaited(self, answer: Path) -> bytes:
            shown.append(answer.with_name(answer.name.replace(".answer.", ".prompt.")).read_text())
            return BLOCK.encode()

    assert not model.traits.native_tools
    reply = await asked(tmp_path / "a.db", Desk("manual:desk", folder, poll=0.01))
    assert (reply.text, reply.calls) == ("I look.", CALLS)
    assert shown[0].count("# Your tools") == shown[0].count("## read") == 1 and "```tool" in shown[0]


async def test_the_dry_model_calls_nothing(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    reply = await asked(tmp_path / "a.db", DryModel(), replace(REQUEST, schema=schema))
    assert reply.value == {"n": 0} and reply.calls == ()


# -- what people see

async def test_people_see_calls_and_results(tmp_path: Path) -> None:
    reply = await asked(tmp_path / "a.db", native())
    goes_on = replace(REQUEST, key="write@1~0/turn.1", messages=(*REQUEST.messages, reply.message, CALLS[0].answered("a page")))
    await asked(tmp_path / "a.db", native((), "Done."), goes_on)
    with RawJournal(tmp_path / "a.db") as journal:
        shown = "\n".join(line for _, event in journal.events("reserved", "settled")
                          for line in full(event, lambda digest: json.loads(journal.blob(digest)), Page()))
    assert "call of read" in shown and '"path": "ü"' in shown and 'call of raed\n      {"path": "a\n' in shown
    assert "    tool\n      a page" in shown and '"id": "call_0"' in shown and shown.count("I look.") == 2
    told = conversation(goes_on)
    assert "----- tool: read -----\n\nReads a file.\nIts arguments, as JSON Schema: {" in told
    assert '{"id": "call_0", "name": "read"' in told
