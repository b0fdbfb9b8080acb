"""Embeddings from an endpoint: what servers send, what goes wrong on the way, what it costs, and a whole run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from embedders import vector
from openai_embeddings import BREAKS, FINE, SHAPES
from openai_server import OpenAIServer
from scripted import events, write

from metaflow_agents import check, run
from metaflow_agents.errors import UsageError
from metaflow_agents.models.endpoint import endpoint_model
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest, traits
from metaflow_agents.models.prices import tariff_for
from metaflow_agents.models.pricing import PICO
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.models.vectors import embedded, fault_of
from metaflow_agents.schema.endpoint import EndpointModel, Price
from metaflow_agents.schema.event import Reserved, Settled

TEXTS = ("whales at sea", "ein Tee, süß", "snow\n\nfell")
REQUEST = ModelRequest(key="w@1~0/embed.1", role="w", step="w", messages=tuple({"role": "user", "content": t} for t in TEXTS),
                       model="openai:e", embeds=True, max_tokens=0)
WANTED = embedded([vector(text) for text in TEXTS])


def model(server: OpenAIServer, **more: Any) -> Any:
    return endpoint_model(EndpointModel(name="e", endpoint=server.url, **more), None, None)


@pytest.mark.parametrize("shape", FINE)
async def test_vectors_come_in_the_order_of_the_texts_in_every_shape(shape: str) -> None:
    async with OpenAIServer(plan={1: shape}) as server:
        its = model(server, parameters={"dimensions": 64})
        reply = await its.ask(REQUEST if shape != "base64" else replace(REQUEST, parameters={"dimensions": 64}))
        assert reply.value == WANTED and reply.tokens_out == 0
        assert reply.estimated == (shape == "no_usage")
        assert reply.tokens_in == (its.worst(REQUEST)[0] if shape == "no_usage" else len("".join(TEXTS).encode()))
        sent = server.bills[0].request
        assert sent["input"] == list(TEXTS) and set(sent) <= {"model", "input", "dimensions"}
        assert reply.tokens_in <= its.worst(REQUEST)[0] and its.worst(REQUEST)[1] == 0


@pytest.mark.parametrize("name", [*sorted(set(SHAPES) - set(FINE)), *BREAKS, "rate_seconds", "error_500", "gateway_502",
                                  "silence", "reset", "error_in_200", "too_long", "wrong_key", "unknown_model", "no_such_path"])
async def test_every_fault_is_told_and_followed_by_the_right_thing(name: str) -> None:
    then = {"too_long": "fail", "wrong_key": "stop", "unknown_model": "stop", "no_such_path": "stop"}.get(name, "again")
    told = {"few": "gave 2 where the embeddings of 3 texts were asked for", "ragged": "not all of one length",
            "no_numbers": "no finite number", "odd_index": "its `index` counts [1, 2, 3]", "nothing": "there is no list `data`",
            "html_whole": "sent what is no JSON for embeddings", "no_such_path": "has no embeddings (404)",
            "too_long": "the request is too long for e", "unknown_model": "knows no model `e`"}.get(name, "the endpoint")
    async with OpenAIServer(plan={1: name}) as server:
        with pytest.raises(CallFailed) as failed:
            await model(server, timeout=0.2).ask(REQUEST)
        assert failed.value.then == then and told in failed.value.told, failed.value.told
        assert (failed.value.charged == 0) == (server.bills[0].status != 200 and name != "gateway_502"), failed.value.charged
        assert (await model(server).ask(REQUEST)).value == WANTED


async def test_an_endpoint_without_embeddings_says_so() -> None:
    async with OpenAIServer(embeds=False) as server:
        with pytest.raises(CallFailed, match=r"has no embeddings \(404\)") as failed:
            await model(server).ask(REQUEST)
        assert failed.value.then == "stop"


def test_what_is_no_embedding_is_told() -> None:
    for value, told in ((None, "gave NoneType"), (["AAAA"], "gave 1 where"), (["AAAA", 3], "no base64"),
                        (["AAA", "="], "no base64"),
                        (["", ""], "empty"), (["AAAAAA==", "AAAAAAAAAAA="], "one length"), (["AAAA", "AAAA"], "cut")):
        assert told in fault_of(value, 2), value
    assert fault_of(embedded([[1.0, 2], (3, 4.5)]), 2) == "" and embedded([]) == []
    for wrong in ("text", [["a"]], [[]], [[float("inf")]], [[1e300]], [[True]], [3], 7):
        with pytest.raises(ValueError):
            embedded(wrong)


def test_published_prices_of_models_that_only_embed() -> None:
    small = tariff_for("text-embedding-3-small", None, None, embeds=True)
    assert small is not None and small.cost(10**6, 0) == small.worst(10**6, 0) == PICO // 50
    assert tariff_for("text-embedding-3-small", None, None) is None, "what its answers would cost nobody says"
    written = tariff_for("x", "http://localhost/v1", Price(**{"in": 2, "out": 0}), embeds=True)
    assert written is not None and written.cost(10**6, 0) == 2 * PICO
    its = traits(endpoint_model(EndpointModel(name="text-embedding-3-small"), "key", None))
    assert its.unpriced() and not its.unpriced(embeds=True)


DESK = """
    sop: desk
    inputs: {topic: string}
    models:
      senses: {name: e, endpoint: URL, price: {in: 3, out: 0}}
    LIMITS
    roles: {poet: {profile: You write., memory: {window: 1 tokens, recall: {importance: 0, embeddings: senses}}}}
    artifacts: {one: {}, two: {}}
    steps:
      first: {role: poet, needs: [topic], makes: one, task: A cetacean in the bay.}
      second: {role: poet, needs: [one, topic], makes: two, task: "{{ topic }}"}
"""


def desk(folder: Path, url: str, limits: str = "") -> Path:
    return write(folder, DESK.replace("URL", url).replace("LIMITS", limits))


async def test_a_run_pays_retries_and_journals_its_embedder_as_any_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.models.caller.Patience", lambda: Patience(first=0.01, longest=0.02))
    async with OpenAIServer(plan={1: "rate_seconds", 3: "few"}) as server:
        path = desk(tmp_path, server.url)
        result = await run(path, topic="Whales", models={"default": lambda request: "words"}, workspace=tmp_path, name="it")
        assert result.ok, str(result)
        assert [bill.status for bill in server.bills] == [429, 200, 200, 200]
        reserved, settled = events(tmp_path, "it", Reserved), events(tmp_path, "it", Settled)
        mine = [event for event in settled if "/embed." in event.key]
        _, first, few, last = (bill.tokens for bill in server.bills)
        assert [(event.again, event.calls, event.tokens_in) for event in mine] == [
            (True, 0, 0), (False, 1, first), (True, 1, few), (False, 1, last)]
        assert [event.cost for event in mine] == [3 * 10**6 * event.tokens_in for event in mine]
        assert all(event.role == "poet" and not event.unpriced for event in reserved)
        assert result.calls == len(server.bills) - 1 + 2


async def test_a_cap_on_money_is_never_overrun_by_an_embedder(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        path = desk(tmp_path, server.url)
        models = {"default": lambda request: "words"}
        result = await run(path, topic="Whales", models=models, workspace=tmp_path, budget={"usd": 0.0001}, name="it")
        assert result.outcome == "budget" and server.bills == [] and "the run's cap of $0.0001" in result.reason
        path.write_text(path.read_text().replace(", price: {in: 3, out: 0}", ""))
        with pytest.raises(UsageError, match=r"caps what openai:e costs, and nobody knows its price: write it as `models: {sen"):
            await run(path, topic="Whales", models=models, workspace=None, budget={"usd": 1})
    capped = desk(tmp_path, "'http://x/v1'", "budget: {usd: 1}")
    capped.write_text(capped.read_text().replace(", price: {in: 3, out: 0}", ""))
    codes = [(problem.code, problem.message) for problem in check(capped).problems if "`e`" in problem.message]
    assert [code for code, _ in codes] == ["no-price"]


async def test_an_unknown_model_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    async with OpenAIServer(models=("ee", "other")) as server:
        path = desk(tmp_path, server.url)
        result = await run(path, topic="Whales", models={"default": lambda request: "words"}, workspace=None)
        assert result.outcome == "endpoint" and "did you mean `ee`?" in result.reason


async def test_everybody_is_answered_by_a_chat_model_but_who_embeds(tmp_path: Path) -> None:
    async with OpenAIServer() as server, OpenAIServer(lambda asked: "words", embeds=False) as chat:
        from metaflow_agents.settings import Settings

        settings = Settings(openai_base_url=chat.url)
        result = await run(desk(tmp_path, server.url), topic="Whales", model="openai:m", workspace=tmp_path, name="it",
                           settings=settings)
        assert result.ok, str(result)
        assert len(server.bills) == 2 and len(chat.bills) == 2
