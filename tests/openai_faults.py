"""What the test server sends, and how it fails: a function for each fault, by name in `FAULTS`."""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai_server import OpenAIServer


@dataclass(slots=True)
class Bill:
    """What one chat request cost. `told`: a whole answer with a usage block was sent. `request` is its JSON."""

    number: int
    tokens_in: int = 0
    tokens_out: int = 0
    told: bool = False
    fault: str = ""
    status: int = 200
    calls: list[dict[str, Any]] = field(default_factory=list, repr=False)
    request: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


class Out:
    """What goes back over a connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer, self.closed = writer, False

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.raw("\r\n".join(lines).encode())

    def body(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.head(status, {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})})
        self.raw(body)

    def json(self, status: int, told: Any, headers: Mapping[str, str] | None = None) -> None:
        self.body(status, json.dumps(told, ensure_ascii=False).encode(), headers)

    def start_stream(self) -> None:
        self.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def piece(self, data: bytes) -> None:
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, told: Any) -> None:
        self.piece(b"data: " + json.dumps(told, ensure_ascii=False).encode() + b"\n\n")

    def done(self) -> None:
        self.piece(b"data: [DONE]\n\n")
        self.end()

    def end(self) -> None:
        self.raw(b"0\r\n\r\n")

    async def cut(self) -> None:
        """Closes in the middle of whatever it was."""
        self.closed = True
        await self.writer.drain()
        self.writer.close()

    def reset(self) -> None:
        self.closed = True
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.writer.transport.abort()


def error(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def bytes_in(asked: dict[str, Any]) -> int:
    """The tokens of a request: the bytes of its messages, of its tools, and of the form that it asks for; 8,000 for a picture."""
    told = json.dumps(asked["messages"], ensure_ascii=False, separators=(",", ":"))
    told, pictures = re.subn(r'"data:image/\w+;base64,[\w+/=]+"', "", told)
    form = json.dumps(asked["response_format"], ensure_ascii=False, separators=(",", ":")) if "response_format" in asked else ""
    tools = json.dumps(asked["tools"], ensure_ascii=False, separators=(",", ":")) if "tools" in asked else ""
    return 8_000 * pictures + len(told.encode()) + len(form.encode()) + len(tools.encode())


def bounded(asked: dict[str, Any], text: str) -> tuple[str, str]:
    """The text as far as the request allows, and why it ends there."""
    most = int(asked.get("max_completion_tokens") or asked["max_tokens"])
    if len(text.encode()) <= most:
        return text, "stop"
    return text.encode()[:most].decode("utf-8", "ignore"), "length"


@dataclass(frozen=True, slots=True)
class Fault:
    """`make` writes what is sent instead of an answer; `early`: without the answer, and unbilled."""

    make: Callable[[OpenAIServer, dict[str, Any], Bill, Out, str], Awaitable[None]]
    early: bool


FAULTS: dict[str, Fault] = {}
_Made = Callable[["OpenAIServer", dict[str, Any], Bill, Out, str], Awaitable[None]]


def _fault(*, early: bool) -> Callable[[_Made], _Made]:
    def kept(make: _Made) -> _Made:
        FAULTS[make.__name__.removeprefix("_")] = Fault(make, early)
        return make
    return kept


def _refuses(name: str, status: int, told: Any, headers: Callable[[], Mapping[str, str]] = dict) -> None:
    async def make(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
        bill.status = status
        out.body(status, told if isinstance(told, bytes) else json.dumps(told).encode(), headers())
    FAULTS[name] = Fault(make, early=True)


_LIMITED = error("Rate limit reached", "requests", "rate_limit_exceeded")
_refuses("rate_seconds", 429, _LIMITED, lambda: {"Retry-After": "0"})
_refuses("rate_float", 429, _LIMITED, lambda: {"Retry-After": "0.01"})
_refuses("rate_ms", 429, _LIMITED, lambda: {"retry-after-ms": "10"})
_refuses("rate_date", 429, _LIMITED, lambda: {"Retry-After": email.utils.formatdate(time.time(), usegmt=True)})
_refuses("rate_reset", 429, _LIMITED, lambda: {"x-ratelimit-reset-requests": "0m0.01s", "x-ratelimit-remaining-requests": "0"})
_refuses("rate_said", 429, error("Rate limit reached. Please try again in 12ms. See account/billing.", "tokens"))
_refuses("rate_hours", 429, _LIMITED, lambda: {"Retry-After": "7200"})
_refuses("rate", 429, _LIMITED)
_refuses("quota", 429, error("You exceeded your current quota, please check your plan.", "insufficient_quota",
                             "insufficient_quota"))
_refuses("error_500", 500, error("The server had an error", "server_error"))
_refuses("error_503", 503, b"upstream connect error", lambda: {"Retry-After": "0", "Content-Type": "text/plain"})
_refuses("gateway_502", 502, b"<html><head><title>502 Bad Gateway</title></head></html>", lambda: {"Content-Type": "text/html"})
_refuses("timeout_408", 408, b"")
_refuses("early_425", 425, b"too early")
_refuses("wrong_key", 401, error("Incorrect API key provided", "invalid_request_error", "invalid_api_key"))
_refuses("forbidden", 403, error("Country, region, or territory not supported", "request_forbidden"))
_refuses("no_money", 402, error("Insufficient Balance", "unknown_error", "invalid_request_error"))
_refuses("unknown_model", 404, error("The model `m` does not exist or you do not have access to it.", "invalid_request_error",
                                     "model_not_found"))
_refuses("no_such_path", 404, {"detail": "Not Found"})
_refuses("too_long", 400, error("This model's maximum context length is 128000 tokens. However, your messages resulted in "
                                "130000 tokens.", "invalid_request_error", "context_length_exceeded"))
_refuses("filtered_400", 400, error("The response was filtered due to the prompt triggering Azure OpenAI's content management "
                                    "policy.", "", "content_filter"))
_refuses("redirect", 307, b"", lambda: {"Location": "https://elsewhere.invalid/v1/chat/completions"})
_refuses("error_in_200", 200, {"error": {"message": "Provider returned error", "code": 502}})


@_fault(early=True)
async def _silence(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    await asyncio.sleep(60)


@_fault(early=True)
async def _reset(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    out.reset()


@_fault(early=True)
async def _gone(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    out.reset()
    server.later(server.gone(0.1))


def _bytes(server: OpenAIServer, asked: dict[str, Any], bill: Bill, text: str) -> bytes:
    bill.tokens_out = len(bounded(asked, text)[0].encode())
    return json.dumps(server.whole(asked, bounded(asked, text)[0], "stop", bill), ensure_ascii=False).encode()


@_fault(early=False)
async def _cut_headers(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    out.raw(b"HTTP/1.1 200 OK\r\nContent-Ty")
    await out.cut()


@_fault(early=False)
async def _cut(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """In the middle of the answer, whichever way it is sent."""
    text = bounded(asked, text)[0]
    sent = text[:len(text) // 2]
    if not asked.get("stream"):
        body = _bytes(server, asked, bill, text)
        out.head(200, {"Content-Length": str(len(body))})
        out.raw(body[:len(body) // 2])
    else:
        bill.tokens_out = len(sent.encode())
        out.start_stream()
        for event in list(server.events(asked, sent, "stop", bill))[:-1]:
            out.event(event)
        out.raw(b"40\r\ndata: {\"choices\": [{\"ind")
    await out.cut()


@_fault(early=False)
async def _cut_utf8(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """In the middle of a character."""
    bill.tokens_out = 2
    if asked.get("stream"):
        out.start_stream()
        out.raw(b'80\r\ndata: {"choices": [{"index": 0, "delta": {"content": "\xe2\x82')
    else:
        out.head(200, {"Content-Length": "4096"})
        out.raw(b'{"choices": [{"index": 0, "message": {"content": "\xe2\x82')
    await out.cut()


@_fault(early=False)
async def _closed(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """No length is told, and the connection ends early, in good order."""
    out.head(200, {"Connection": "close"})
    if asked.get("stream"):
        out.raw(b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n')
        bill.tokens_out = 4
    else:
        out.raw(_bytes(server, asked, bill, text)[:-9])
    await out.cut()


@_fault(early=False)
async def _no_done(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """A whole stream but for its last word: no fault, and no counts."""
    text, finish = bounded(asked, text)
    if not asked.get("stream"):
        bill.told = True
        out.body(200, _bytes(server, asked, bill, text))
        return
    bill.tokens_out = len(text.encode())
    out.start_stream()
    for event in server.events(asked, text, finish, bill):
        out.event(event)
    out.end()


@_fault(early=False)
async def _slowly(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """No fault: the last event of a stream comes a second after the others."""
    bill.tokens_out, bill.told = len(text.encode()), True
    if not asked.get("stream"):
        out.body(200, _bytes(server, asked, bill, text))
        return
    out.start_stream()
    *most, last = server.events(asked, text, "stop", bill)
    for event in most:
        out.event(event)
    await asyncio.sleep(1)
    out.event(last)
    out.done()


@_fault(early=False)
async def _comments(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """A stream that is kept open, and says nothing."""
    out.start_stream()
    while not out.writer.is_closing():
        out.piece(b": PROCESSING\n\n")
        await asyncio.sleep(0.02)


@_fault(early=False)
async def _endless(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """Text without end, as fast as it is taken."""
    bill.tokens_out = int(asked.get("max_completion_tokens") or asked["max_tokens"])
    stream = asked.get("stream")
    out.start_stream()
    if not stream:
        out.piece(b'{"choices": [{"index": 0, "message": {"content": "')
    sent = 0
    while not out.writer.is_closing() and sent < 50_000_000:
        if stream:
            out.event({"choices": [{"index": 0, "delta": {"content": "x" * 60000}}]})
        else:
            out.piece(b"x" * 60000)
        sent += 60000
        await out.writer.drain()
    await out.cut()


@_fault(early=False)
async def _html(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    _bytes(server, asked, bill, text)
    out.body(200, b"<!DOCTYPE html><html><title>Sign in</title></html>", {"Content-Type": "text/html"})


@_fault(early=False)
async def _no_choices(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    bill.told = True
    out.json(200, {"id": "x", "choices": [], "usage": server.counts(bill)})


@_fault(early=False)
async def _bad_utf8(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    body = _bytes(server, asked, bill, text)
    out.body(200, body.replace(b'"content": "', b'"content": "\xff\xfe'))


@_fault(early=False)
async def _malformed(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """A body that is no answer, one of several ways; one of them tells what it cost."""
    body, way = _bytes(server, asked, bill, text), bill.number % 5
    bill.told = way == 3 and server.usage in ("plain", "every", "groq")
    out.body(200, [body[:-20], b"", b"null", body.replace(b'"choices"', b'"choice"', 1), b"<html></html>"][way])


@_fault(early=False)
async def _empty(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    bill.told = True
    out.json(200, server.whole(asked, "", "stop", bill))


@_fault(early=False)
async def _refusal(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    told = server.whole(asked, "", "stop", bill)
    bill.told = True
    told["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
    out.json(200, told)


@_fault(early=False)
async def _filtered(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    bill.told = True
    out.json(200, server.whole(asked, "", "content_filter", bill))


@_fault(early=False)
async def _bad_gzip(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    out.body(200, b"\x1f\x8b this is no gzip", {"Content-Encoding": "gzip"})


@_fault(early=False)
async def _gzip(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """No fault: a packed answer."""
    bill.told = True
    bill.tokens_out = len(text.encode())
    out.body(200, gzip.compress(_bytes(server, asked, bill, text)), {"Content-Encoding": "gzip"})


@_fault(early=False)
async def _error_in_stream(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    out.start_stream()
    if asked.get("stream"):
        bill.tokens_out = 4
        out.event({"choices": [{"index": 0, "delta": {"content": "half"}}]})
    out.event({"error": {"message": "Provider disconnected", "code": 502}, "choices": [
        {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]})
    out.done()


@_fault(early=False)
async def _length(server: OpenAIServer, asked: dict[str, Any], bill: Bill, out: Out, text: str) -> None:
    """The answer ends at half of it."""
    half = text[:len(text) // 2]
    bill.tokens_out, bill.told = len(half.encode()), True
    out.json(200, server.whole(asked, half, "length", bill))
