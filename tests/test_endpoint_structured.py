"""Structured answers: strict JSON schema, JSON schema, JSON mode, instructions; found out once, remembered, told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from endpoint_calls import called, model_at, request_for
from hypothesis import HealthCheck, given, settings
from openai_server import OpenAIServer, unstrict
from schema_strategies import RECURSIVE, SCHEMAS, cases
from test_schema_validation import normalise
from tiers import examples

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.models.endpoint.body import Bodies
from metaflow_agents.models.endpoint.learned import FORMS, Learned
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import Reply
from metaflow_agents.models.schema_in_words import shows_form
from metaflow_agents.models.structured import as_asked, rooted, strict_form
from metaflow_agents.schema.validation import validator

TREE = {"type": "object", "required": ["name"], "additionalProperties": False,
        "properties": {"name": {"type": "string", "minLength": 1}, "note": {"type": "string", "default": "x"},
                       "kids": {"type": "array", "items": {"$ref": "#/$defs/kid"}, "minItems": 1, "uniqueItems": True},
                       "left": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "$defs": {"kid": {"type": "object", "required": [], "additionalProperties": False,
                          "properties": {"age": {"type": "integer", "minimum": 0}, "kid": {"$ref": "#/$defs/kid"}}}}}
FREE = {"type": "object", "properties": {}, "required": [], "additionalProperties": {"type": "string"}}
LIST = {"type": "array", "items": {"type": "string"}}


def test_strict_form_is_what_strict_mode_takes_and_an_answer_comes_back_as_asked() -> None:
    strict = strict_form(TREE)
    assert strict is not None and list(unstrict(strict)) == []
    assert strict["properties"]["kids"] == {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/kid"}, "minItems": 1,
                                                       "description": "No item twice."},
                                                      {"type": "null"}]}
    answer = {"name": "a", "note": None, "kids": [{"age": None, "kid": {"age": 3, "kid": None}}], "left": None}
    assert json.loads(as_asked(TREE, json.dumps(answer))) == {"name": "a", "kids": [{"kid": {"age": 3}}], "left": None}


def test_what_strict_mode_cannot_say_is_asked_for_otherwise() -> None:
    assert strict_form(FREE) is None and strict_form({}) is None
    assert strict_form({"type": "object", "properties": {"any": {}}, "required": ["any"], "additionalProperties": False}) is None


def test_what_strict_mode_does_not_know_is_told_in_words() -> None:
    node = {"type": "string", "description": "A name.", "minLength": 2, "maxLength": 9, "format": "uri", "examples": ["ab", "cd"]}
    strict = strict_form({"type": "object", "properties": {"a": node, "b": {"type": "string", "format": "date"}},
                          "required": ["a", "b"], "additionalProperties": False, "examples": [{"a": "ab"}]})
    assert strict is not None and list(unstrict(strict)) == []
    assert strict["properties"]["a"]["description"] == (
        'A name. At least 2 characters. At most 9 characters. Format: uri. Example: "ab"')
    assert strict["properties"]["b"] == {"type": "string", "format": "date"} and strict["description"] == 'Example: {"a": "ab"}'


def test_what_is_no_object_travels_in_one() -> None:
    strict = strict_form(LIST)
    assert strict is not None and strict["properties"] == {"answer": LIST} and list(unstrict(strict)) == []
    assert as_asked(LIST, '{"answer": ["a"]}') == '["a"]'
    assert as_asked(LIST, '["a"]') == '["a"]' and as_asked(LIST, "no JSON") == "no JSON"     # who ignores it, answers the prompt
    assert as_asked(TREE, "[" * 5000 + "null") == "[" * 5000 + "null"


def test_branches_keep_the_nulls_that_they_mean() -> None:
    either = {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                         "additionalProperties": False},
                        {"type": "object", "properties": {"b": {"type": "null"}, "c": {"type": "string"}}, "required": ["b"],
                         "additionalProperties": False}]}
    assert as_asked(either, '{"answer": {"b": null, "c": null}}') == '{"b": null}'


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(SCHEMAS | RECURSIVE, normalise))
def test_any_schema_has_a_form_and_a_fitting_answer_is_left_as_it_is(case: tuple[Any, Any, Any]) -> None:
    _, schema, value = case
    strict = strict_form(schema)
    assert strict is None or list(unstrict(strict)) == []
    assert rooted(schema)["type"] == "object"
    try:
        fits = validator(schema, "it").validate(value)
    except AnswerInvalid:
        return
    sent = value if schema.get("type") == "object" else {"answer": value}
    assert validator(schema, "it").validate_json(as_asked(schema, json.dumps(sent))) == fits


async def modes(server: OpenAIServer, schema: Any, times: int = 2) -> tuple[list[str], list[Any]]:
    """The ways in which the server was asked, try by try, and what the last call of each gave."""
    model, results = model_at(server.url), []
    async with model:
        for _ in range(times):
            result: Any = None
            for _ in range(6):
                result = await called(model, request_for(model, schema=schema))
                if not isinstance(result, CallFailed):
                    break
                assert (result.then, result.charged, result.refused, result.after) == ("again", 0, True, 0.0), result.told
            results.append(result)
    return [_mode(bill.request) for bill in server.bills], results


def _mode(asked: dict[str, Any]) -> str:
    form = asked.get("response_format")
    if form is None or form["type"] == "json_object":
        return "none" if form is None else "json"
    return "strict" if form["json_schema"].get("strict") else "schema"


@pytest.mark.parametrize(("formats", "asked"), [
    (("strict", "schema", "json"), ["strict", "strict"]), (("json",), ["strict", "json", "json"]),
    ((), ["strict", "json", "none", "none"]),
])
async def test_the_best_way_is_found_out_once(formats: tuple[str, ...], asked: list[str]) -> None:
    async with OpenAIServer(lambda asked: '{"name": "a", "note": null}', formats=formats) as server:
        seen, results = await modes(server, TREE)
        assert seen == asked and all(isinstance(result, Reply) for result in results)
        other = model_at(server.url)
        assert other.learned.form == asked[-1] and other.learned.told().startswith("structured answers by ")
        assert model_at(server.url, name="another").learned.form == "strict"
    assert json.loads(results[-1].text) == ({"name": "a"} if asked[-1] != "none" else {"name": "a", "note": None})


async def test_a_schema_that_strict_mode_cannot_say_is_asked_for_without_it() -> None:
    async with OpenAIServer(lambda asked: '{"k": "v"}') as server:
        assert (await modes(server, FREE))[0] == ["schema", "schema"]
    async with OpenAIServer(lambda asked: "ok") as server:
        assert (await modes(server, None))[0] == ["none", "none"] and (await modes(server, {"type": "string"}))[0][-1] == "none"


async def test_a_refused_schema_is_its_own_fault_and_not_the_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai_server.unstrict", lambda schema: ["'kids' is too much"] if "kids" in str(schema) else [])
    async with OpenAIServer(lambda asked: '{"name": "a"}') as server:
        assert (await modes(server, TREE))[0] == ["strict", "schema", "schema"]
        assert (await modes(server, LIST, times=1))[0][-1] == "strict"


async def test_calls_at_once_find_it_out_together() -> None:
    async with OpenAIServer(lambda asked: '{"name": "a"}', formats=(), latency=0.02) as server:
        model = model_at(server.url)

        async def one() -> None:
            for _ in range(6):
                if isinstance(await called(model, request_for(model, schema=TREE)), Reply):
                    return
            raise AssertionError("six refusals")
        async with model, asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(one())
    assert model.learned.form == "none" and len(model.learned.refused) == 2


async def test_names_of_parameters_are_found_out_once() -> None:
    async with OpenAIServer(length_names=("max_tokens",), stream_options=False) as server:
        model = model_at(server.url, temperature=0.5, parameters={"seed": 7})
        tries = [await called(model, request_for(model, watch=lambda text: None)) for _ in range(4)]
    assert [isinstance(one, Reply) for one in tries] == [False, False, True, True]
    assert "max_tokens" in server.bills[-1].request and "stream_options" not in server.bills[-1].request
    assert (server.bills[-1].request["temperature"], server.bills[-1].request["seed"]) == (0.5, 7)
    assert "`max_tokens`" in model.learned.told()


async def test_who_ignores_the_newer_name_is_asked_by_the_older_and_its_answer_is_taken() -> None:
    async with OpenAIServer(lambda asked: "ok") as server:
        server.counts = lambda bill: {"prompt_tokens": 9, "completion_tokens": 9000 if bill.number == 1 else 9}  # type: ignore
        model = model_at(server.url)
        first, second = [await model.ask(request_for(model)) for _ in range(2)]
    assert (first.text, first.tokens_out, first.estimated) == ("ok", 9000, False)
    asked = [bill.request for bill in server.bills]
    assert second.tokens_out == 9 and "max_completion_tokens" in asked[0] and "max_tokens" in asked[1]


def test_every_way_to_ask_carries_the_messages() -> None:
    model = model_at("http://localhost:1/v1")
    for schema in (TREE, FREE, LIST, None):
        request, known = request_for(model, 'a "quoted" wörd\n', schema=schema), Learned()
        for form in FORMS:
            known.form = form
            for shown in (True, False):
                asked = json.loads(Bodies("m", shows_form=shown).prepared(request, known).body)
                *before, last = asked["messages"]
                *plain, asks = [dict(message) for message in request.messages]
                alone = schema is None or (shown and _mode(asked) in ("strict", "schema"))
                assert before == plain and last["content"].startswith(asks["content"].rstrip())
                told = schema and (rooted(schema) if _mode(asked) in ("strict", "schema") else schema)
                assert (json.dumps(told, ensure_ascii=False) in last["content"]) is not alone and (last == asks) is alone


@pytest.mark.parametrize(("url", "shows"), [
    ("https://api.openai.com/v1", True), ("https://mine.openai.azure.com/openai/v1", True), ("http://localhost:11434/v1", False),
    ("https://openai.example.com/v1", False), ("https://notapi.openai.com.example/v1", False),
    ("https://api.openai.com.example/", False),
])
def test_only_endpoints_that_show_it_are_given_the_schema_in_one_place(url: str, shows: bool) -> None:
    assert shows_form(url) is shows


async def test_the_model_is_told_the_schema_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for shown in (False, True):
        monkeypatch.setattr("metaflow_agents.models.schema_in_words._SHOWN_BY", ("127.0.0.1",) if shown else ())
        async with OpenAIServer(lambda asked: '{"name": "a"}') as server:
            await modes(server, TREE, times=1)
        said = "".join(message["content"] for message in server.bills[-1].request["messages"])
        assert ("The JSON Schema of your answer" in said) is not shown and server.bills[-1].request["response_format"]


async def test_what_goes_out_is_what_was_reserved_whatever_is_learned_in_between() -> None:
    async with OpenAIServer(lambda asked: '{"name": "a"}') as server:
        model = model_at(server.url)
        request = request_for(model, schema=FREE)
        model.learned.form = "json"
        reserved, _ = model.worst(request)
        model.learned.form = "none"
        reply = await model.ask(request)
    assert [_mode(bill.request) for bill in server.bills] == ["json"] and reply.tokens_in <= reserved


def test_an_answer_brought_back_fits_its_schema() -> None:
    bare = as_asked(TREE, json.dumps({"name": "a", "note": None, "kids": None, "left": 3}))
    assert validator(TREE, "it").validate_json(bare) == {"name": "a", "note": "x", "left": 3}
