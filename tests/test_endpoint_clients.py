"""Connections: one client per endpoint and key, shared by all runs of an event loop, closed when the last one ends."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest
from endpoint_calls import called, model_at, request_for
from openai_server import OpenAIServer, ServerProcess
from scripted import write

from metaflow_agents import run, run_sync, start
from metaflow_agents.errors import UsageError
from metaflow_agents.models.endpoint import endpoint_model
from metaflow_agents.models.endpoint.clients import open_clients
from metaflow_agents.models.port import Model, Reply
from metaflow_agents.schema.endpoint import EndpointModel, Price

SOP = """
    sop: shared
    inputs: {topic: string}
    models: {strong: dry}
    roles: {ann: {profile: You write.}, bob: {profile: You write, model: strong}}
    artifacts: {one: {each: string}, two: {}}
    steps:
      first: {role: ann, needs: [topic], makes: one, foreach: {in: "[1, 2, 3, 4]", key: "item | string"}}
      second: {role: bob, needs: [one], makes: two}
"""


@pytest.mark.one_in(4)
async def test_roles_and_runs_share_a_client_and_the_last_closes_it(tmp_path: Path) -> None:
    path = write(tmp_path, SOP)
    async with OpenAIServer(lambda asked: "fine", latency=0.01) as server:
        plain, strong = model_at(server.url), model_at(server.url, name="strong")
        options = {"topic": "x", "models": {"*": plain, "strong": strong}, "workspace": None}
        async with start(path, **options) as one, start(path, **options) as two:
            assert open_clients() == 1
            assert (await one.result()).ok and (await two.result()).ok
            assert open_clients() == 1 and server.connections <= server.most_at_once <= 8
        assert open_clients() == 0 and server.most_at_once > 1
        async with model_at(server.url, key="k") as other, plain:
            assert open_clients() == 2 and isinstance(await called(other, request_for(other)), Reply)
        await asyncio.sleep(0)
        assert not server._open


@pytest.mark.one_in(4)
async def test_a_run_that_is_stopped_leaves_no_connection(tmp_path: Path) -> None:
    asked = asyncio.Event()

    def plan(number: int) -> str:
        if number == 4:
            asked.set()
        return "silence"

    async with OpenAIServer(plan=plan) as server:
        async with start(write(tmp_path, SOP), topic="x", model=model_at(server.url), workspace=None) as going:
            await asyncio.wait_for(asked.wait(), 20)
            going.stop()
        assert (await going.result()).outcome == "interrupted" and open_clients() == 0
    gc.collect()                            # an unclosed client would warn, and warnings are errors


@pytest.mark.one_in(4)
async def test_a_call_outside_of_a_run_opens_and_closes_its_own() -> None:
    async with OpenAIServer() as server:
        model = model_at(server.url)
        assert isinstance(await called(model, request_for(model)), Reply) and open_clients() == 0


def test_one_model_serves_event_loops_one_after_the_other_and_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, SOP)
    with OpenAIServer(lambda asked: "fine").in_thread() as server:
        model = model_at(server.url)
        assert run_sync(path, topic="x", model=model, workspace=None).ok
        assert run_sync(path, topic="x", model=model, workspace=None).ok

        async def two() -> list[bool]:
            here = run(path, topic="x", model=model, workspace=None)
            there = asyncio.to_thread(run_sync, path, topic="x", model=model, workspace=None)
            return [result.ok for result in await asyncio.gather(here, there)]
        assert asyncio.run(two()) == [True, True]


@pytest.mark.one_in(4)
async def test_a_server_in_another_process(tmp_path: Path) -> None:
    with ServerProcess(plan={1: "rate_seconds"}) as server:
        path = write(tmp_path, SOP.replace(", model: strong", ""))
        result = await run(path, topic="x", model=model_at(server.url), workspace=None)
        bills = server.bills()
    assert result.ok and [bill.fault for bill in bills if bill.fault] == ["rate_seconds"]
    assert sum(bill.tokens for bill in bills) == result.tokens


@pytest.mark.one_in(4)
def test_nothing_heavy_is_loaded_before_a_call() -> None:
    told = "import sys, metaflow_agents.models.endpoint as e; from metaflow_agents.schema.endpoint import EndpointModel as S; " \
        "e.endpoint_model(S(name='m'), 'k', None); print([n for n in ('openai', 'aiohttp', 'httpx2') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_what_a_model_is() -> None:
    spec = EndpointModel(name="m", temperature=0.2, max_tokens=100, parameters={"seed": 1}, price=Price(**{"in": 1, "out": 2}))
    model: Model = endpoint_model(spec, "k", None)
    assert model.name == "openai:m" and isinstance(model, Model)
    traits = endpoint_model(spec, "k", "http://localhost:8000/v1/").traits
    assert (traits.endpoint, traits.max_tokens, dict(traits.parameters)) == (
        "http://localhost:8000/v1", 100, {"temperature": 0.2, "seed": 1})
    assert traits.tariff is not None and traits.tariff.cost(10, 10) == 30 * 10**6
    assert endpoint_model(EndpointModel(name="m", endpoint="http://here:1/v1"), None, "http://there:1/v1").url == "http://here:1/v1"


@pytest.mark.parametrize(("spec", "key", "told"), [
    ({"endpoint": "localhost:8000"}, None, "is no address: write like `http://localhost:8000/v1`"),
    ({}, "two words", "holds spaces or characters that no key has"),
    ({"key": "MY_KEY"}, "schlüssel", "the key in MY_KEY"),
    ({"parameters": {"n": 3}}, None, "`parameters.n` of the model `m`"),
    ({"parameters": {"max_tokens": 3}}, None, "write `max_tokens: …` beside `name`"),
])
def test_what_cannot_be_sent_is_refused_before_a_run(spec: dict[str, object], key: str | None, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        endpoint_model(EndpointModel(name="m", **spec), key, None)      # type: ignore[arg-type]
    assert told in str(caught.value) and (key is None or key not in str(caught.value))
