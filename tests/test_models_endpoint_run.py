"""From the spelling in a SOP to what a real server is sent: names, keys, parameters, a resume, a recording of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer
from scripted import events, write

from metaflow_agents import resume, run
from metaflow_agents.schema.event import Reserved, RunOpened
from metaflow_agents.settings import Settings

SECRET = "sk-real-enough-0123456789"
SOP = """
    sop: desk
    models: {default: {name: qwen3, endpoint: "URL", key: MY_KEY, temperature: 0.25, max_tokens: 300, parameters: {seed: 7}}}
    roles: {ann: {profile: You write.}}
    artifacts: {one: {}, two: {schema: [string]}}
    steps:
      first: {role: ann, makes: one}
      second: {role: ann, needs: [one], makes: two}
"""
PLAIN = SOP[:SOP.index("    models:")] + SOP[SOP.index("    roles:"):]


def what(request: dict[str, Any]) -> tuple[Any, ...]:
    return request["model"], request.get("temperature"), request.get("seed"), request.get("max_completion_tokens",
                                                                                            request.get("max_tokens"))


def files_with(text: str, folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


async def test_what_the_sop_says_reaches_the_server(tmp_path: Path) -> None:
    async with OpenAIServer(key=SECRET) as server:
        path = write(tmp_path, SOP.replace("URL", server.url))
        result = await run(path, workspace=tmp_path, settings=Settings.read({"MY_KEY": SECRET}))
        assert result.ok, result.reason
        assert [what(bill.request) for bill in server.bills] == [("qwen3", 0.25, 7, 300)] * 2
        assert result.tokens == sum(bill.tokens for bill in server.bills)
        (opened,) = events(tmp_path, result.name, RunOpened)
        assert opened.models == {"default": f"openai:qwen3 at {server.url}"}


async def test_a_resume_sends_the_same_again_and_a_recording_needs_no_server(tmp_path: Path) -> None:
    async with OpenAIServer(key=SECRET) as server:
        path = write(tmp_path, SOP.replace("URL", server.url))
        env = Settings.read({"MY_KEY": SECRET})
        name = (await run(path, workspace=tmp_path, settings=env, until="first")).name
        first = await resume(name, workspace=tmp_path, settings=env)
        assert first.ok and [what(bill.request) for bill in server.bills] == [("qwen3", 0.25, 7, 300)] * 2
    second = await run(path, workspace=tmp_path, model=f"replay:{name}", settings=Settings(), name="second")
    assert second.ok and dict(second.outputs) == dict(first.outputs) and second.tokens == first.tokens


@pytest.mark.parametrize("how", ["model", "environment", "sop"])
async def test_openai_name_asks_the_base_url(tmp_path: Path, how: str) -> None:
    async with OpenAIServer(models=["qwen3"]) as server:
        env = {"OPENAI_BASE_URL": server.url, **({"SOP_MODEL": "openai:qwen3"} if how == "environment" else {})}
        text = PLAIN.replace("    roles:", "    models: {default: 'openai:qwen3'}\n    roles:") if how == "sop" else PLAIN
        result = await run(write(tmp_path, text), workspace=tmp_path, settings=Settings.read(env),
                           **({"model": "openai:qwen3"} if how == "model" else {}))
        assert result.ok, result.reason
        assert [bill.request["model"] for bill in server.bills] == ["qwen3", "qwen3"]


async def test_a_wrong_key_stops_and_stands_nowhere(tmp_path: Path) -> None:
    async with OpenAIServer(key="another") as server:
        path = write(tmp_path, SOP.replace("URL", server.url))
        result = await run(path, workspace=tmp_path, settings=Settings.read({"MY_KEY": SECRET}))
    assert result.exit_status == 5 and "MY_KEY" in result.reason and SECRET not in result.reason
    assert not files_with(SECRET, tmp_path)


async def test_only_what_is_not_recorded_goes_to_the_server(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        env = Settings.read({"OPENAI_BASE_URL": server.url})
        path = write(tmp_path, PLAIN)
        await run(path, workspace=tmp_path, settings=env, model="openai:qwen3", name="first")
        write(tmp_path, PLAIN.replace("makes: two", "makes: two, task: Be brief."))
        result = await run(path, workspace=tmp_path, settings=env, model="replay:first,openai:qwen3", name="second")
        assert result.ok and len(server.bills) == 3 and "Be brief." in str(server.bills[-1].request["messages"])
        assert [event.model for event in events(tmp_path, "second", Reserved)] == ["replay:first", "openai:qwen3"]
