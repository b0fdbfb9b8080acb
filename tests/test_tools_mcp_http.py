"""MCP over streamable HTTP: a real server on loopback, and servers that do what none should."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp_desk import SECRETS, called, gone, opened, said, served, setting, until

from metaflow_agents.errors import RunError
from metaflow_agents.schema.tools import ServerSpec
from metaflow_agents.tools.mcp import McpServer

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def over_http(url: str, **spec: Any) -> McpServer:
    return McpServer("web", ServerSpec(url=url, **spec), setting())


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """A server on loopback that answers every request by a function: its URL."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    finally:
        await runner.cleanup()


async def greeting(request: web.Request) -> dict[str, Any] | None:
    """What a well-behaved server says to the handshake; None for everything else."""
    asked = json.loads(await request.text() or "{}")
    if asked.get("method") == "initialize":
        return {"jsonrpc": "2.0", "id": asked["id"], "result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "0"}}}
    return None


@pytest.mark.one_in(4)
async def test_tools_over_http(tmp_path: Path) -> None:
    with served() as (url, process):
        async with opened(over_http(url, headers={"Authorization": "Bearer ${KEY}"}, timeout=2)) as tools:
            assert (await called(tools["echo"], text="hello")).text == "hello"
            sent = await called(tools["headers"])
            assert json.loads(sent.text)["authorization"] == "Bearer [secret KEY]" and SECRETS["KEY"] not in sent.text
            note = tmp_path / "note"
            slow = await called(tools["slow"], seconds=60, note=str(note))
            assert slow.error and "did not answer within 2 s" in slow.text
            await until(lambda: said(note) == "cancelled")
            assert (await called(tools["echo"], text="still there")).text == "still there"
        assert process.poll() is None, "a server that was not started here goes on"


@pytest.mark.one_in(4)
async def test_a_server_that_goes_away_is_told() -> None:
    with served() as (url, process):
        async with opened(over_http(url)) as tools:
            process.kill()
            process.wait()
            told = await called(tools["echo"], text="hello")
            assert told.error and "the MCP server web: " in told.text and "The next call starts it once more." in told.text
            again = await called(tools["echo"], text="hello")
            assert again.error and "ConnectError" in again.text and "not started again" in again.text
    assert await gone(process.pid)


async def test_nobody_there() -> None:
    server = over_http("http://127.0.0.1:1/mcp")
    async with server.opened():
        with pytest.raises(RunError, match="the MCP server web: ConnectError"):
            await server.tools()


async def test_a_refusal_names_its_status() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, text="who are you?")

    async with answering(answer) as url:
        server = over_http(url)
        async with server.opened():
            with pytest.raises(RunError, match="HTTP 401 Unauthorized"):
                await server.tools()


async def test_no_header_reaches_another_host() -> None:
    seen: list[dict[str, str]] = []

    async def other(request: web.Request) -> web.StreamResponse:
        seen.append(dict(request.headers))
        return web.Response(status=500)

    async with answering(other) as elsewhere:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": elsewhere})

        async with answering(answer) as url:
            server = over_http(url, headers={"X-Key": "${KEY}"})
            async with server.opened():
                with pytest.raises(RunError, match="not followed"):
                    await server.tools()
    assert seen == []


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_without_end(packed: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        greeted = await greeting(request)
        if greeted is not None:
            return web.json_response(greeted)
        if request.method != "POST" or b"tools/list" not in await request.read():
            return web.Response(status=202 if request.method == "POST" else 405)
        if packed:
            return web.Response(body=gzip.compress(b" " * 50_000_000), headers={
                "Content-Encoding": "gzip", "Content-Type": "application/json"})
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            for _ in range(1000):
                await response.write(b" " * 65536)
        except ConnectionError:
            pass
        return response

    async with answering(answer) as url:
        server = over_http(url)
        async with server.opened():
            with pytest.raises(RunError, match="packed answer" if packed else "more than 16 MiB"):
                await server.tools()


async def test_a_server_that_forgot_the_session_is_greeted_again() -> None:
    known: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        greeted = await greeting(request)
        if greeted is not None:
            known.append(str(len(known)))
            return web.json_response(greeted, headers={"Mcp-Session-Id": known[-1]})
        asked = json.loads(await request.text() or "{}")
        if "id" not in asked:
            return web.Response(status=202 if request.method == "POST" else 405)
        if asked["method"] == "tools/call" and request.headers["Mcp-Session-Id"] == "0":
            return web.Response(status=404)
        result = {"tools": [{"name": "hi", "inputSchema": {"type": "object"}}]} if asked["method"] == "tools/list" else {
            "content": [{"type": "text", "text": "hello"}]}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    async with answering(answer) as url, opened(over_http(url)) as tools:
        forgot = await called(tools["hi"])
        assert forgot.error and "HTTP 404" in forgot.text and "starts it once more" in forgot.text
        assert (await called(tools["hi"])).text == "hello" and known == ["0", "1"]
