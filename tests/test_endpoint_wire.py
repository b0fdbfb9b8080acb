"""What real servers send, replayed from a raw socket: `tests/wire/README.md` says where each comes from."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoint_calls import called, model_at, request_for, sending

from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import Reply

WIRE = Path(__file__).parent / "wire"
# name → what is read: the text and (in, out, cached), or what follows and what is charged.
READ: dict[str, Any] = {
    "azure-filtered": ("fail", 34, "content filter"),
    "azure-prompt-filtered": ("fail", 0, "content filter"),
    "azure-stream": ("Hello World", 15, 5, 0),
    "cerebras-gpt-oss": ("The capital of France is **Paris**.", 74, 36, 0),
    "deepseek-reasoner-stream": (" 😊 How can I help you today?", 6, 212, 0),
    "gemini": ("The current time is Noon. \n", 66, 6, 0),
    "gemini-tool": ("again", 126, "called a tool"),
    "groq": ("The capital of France is Paris.", 48, 8, 0),
    "groq-stream-tool": ("again", 523, "called a tool"),
    "mistral": ("Hello! 😊 How can I assist you today? Whether you have a question, need help with something, or just want to "
                "chat, I'm here for you!", 4, 36, 0),
    "mistral-thinking": ("391", 28, 94, 0),
    "openai-structured": ('{"city":"Mexico City","country":"Mexico"}', 100, 15, 0),
    "openrouter-stream-error": ("fail", 53, "used all 8,192 tokens up before its answer began"),
    "openrouter-unknown-model": ("stop", 0, "knows no model `m` (404): No endpoints found"),
    "together-gzip": (" Why don't we ever hear secrets at a OpenTelemetry convention? Because it's an ex-spy place! (I'll show "
                      "myself out)", 18, 35, 0),
    "together-deepseek-r1": ("Hello! 👋 How can I help you today?", 4, 197, 0),
    "vllm": ("The image shows a dog, specifically a Labrador Retriever, interacting with a person on a beach. The dog is wearing "
             "a harness and appears to be giving a high-five to the person.", 3606, 40, 0),
    "xai-grok": ("Grok", 12, 322, 2),
}


async def served(name: str, pieces: int, *, streamed: bool, tools: tuple[dict[str, Any], ...] = ()) -> Reply | CallFailed:
    """What the adapter reads of a recording that comes in pieces of so many bytes."""
    head, _, body = (WIRE / f"{name}.http").read_bytes().partition(b"\n\n")
    if b"content-encoding: gzip" in head:
        body = base64.b64decode(body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        length = int(asked.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0) if b"POST" in asked else 0
        await reader.readexactly(length)
        if asked.startswith(b"GET"):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            writer.write(head.replace(b"\n", b"\r\n") + b"\r\nConnection: close\r\n\r\n")
            for at in range(0, len(body), pieces):
                writer.write(body[at:at + pieces])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        model = sending(model_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"), streamed=streamed)
        request = request_for(model, "Say something. " * 400, watch=(lambda text: None) if streamed else None)
        return await called(model, replace(request, tools=tools))
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("pieces", [2**16, 61])
@pytest.mark.parametrize("name", READ)
async def test_a_recording_is_read_as_it_came(name: str, pieces: int) -> None:
    read = await served(name, pieces, streamed="stream" in name)
    if isinstance(read, CallFailed):
        assert len(READ[name]) == 3, read.told
        then, charged, told = READ[name]
        assert (read.then, read.charged) == (then, charged) and told in read.told
    else:
        assert (read.text, read.tokens_in, read.tokens_out, read.tokens_cached) == READ[name]
        assert not read.estimated and not read.cut


@pytest.mark.parametrize(("name", "calls"), [
    ("gemini-tool", [("function-call-2900024254458648715", "get_current_time", {})]),
    ("groq-stream-tool", [("fc_299e8414-9e94-4d9c-bd06-c096f8919768", "final_result", {"response": "no"})])])
async def test_calls_of_tools_are_read_where_some_were_offered(name: str, calls: list[Any]) -> None:
    tools = tuple({"name": tool, "parameters": {"type": "object"}} for _, tool, _ in calls)
    read = await served(name, 61, streamed="stream" in name, tools=tools)
    assert isinstance(read, Reply) and read.text == ""
    assert [(call.id, call.name, call.arguments) for call in read.calls] == calls


async def test_who_streams_unasked_is_read_too() -> None:
    read = await served("azure-stream", 2**16, streamed=False)
    assert isinstance(read, Reply) and read.text == "Hello World"
    read = await served("vllm", 2**16, streamed=True)
    assert isinstance(read, Reply) and read.tokens_out == 40


def test_every_recording_is_read_and_told_where_it_comes_from() -> None:
    files = {path.stem for path in WIRE.glob("*.http")}
    told = (WIRE / "README.md").read_text()
    assert files == set(READ) and all(f"`{name}.http`" in told for name in files)
