"""A chat-completions endpoint on loopback that answers at once, or after a wait: what `overhead.py` measures against.

    python -m benchmarks.endpoint          # prints its port; ends when its standard input closes

It runs in a process of its own and speaks just enough HTTP/1.1 that it costs a small part of what any client does. The path
says how long an answer takes (`/200/v1/chat/completions`: 200 ms), the prompt what is answered:

- `Plan 200 parts.` gives `{"parts": […]}` with 200 of them, each `{"id": "p0", "text": …}`;
- `Write the file src/p0.py.` gives that file as a block;
- anything else gives 1 KB of text, another each time.

What is exported to it by OTLP (`/v1/traces`, `/v1/metrics`) is taken, and no request that counts.
`GET /first` tells when the first request since the last such question came, in seconds of the machine's monotonic clock, and
how many came.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

ANSWER = " ".join(f"Point {number}: what there is to say on this is said in one plain sentence." for number in range(15))
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_PLAN = re.compile(rb"Plan (\d+) parts\.")
_FILE = re.compile(rb"Write the file ([\w./-]+)\.(?!.*Write the file)", re.DOTALL)
_LINES = "".join(f"# line {number}: what there is to do here is done in one plain statement\n" for number in range(14))


class Seen:
    """What came since somebody last asked."""

    first: float | None = None
    requests: int = 0
    ever: int = 0


def answer(body: bytes, number: int) -> str:
    """The text that answers a request, the `number`th."""
    plan = _PLAN.search(body)
    if plan is not None:
        parts = [{"id": f"p{part}", "text": f"part {part} of the whole"} for part in range(int(plan[1]))]
        return json.dumps({"parts": parts})
    file = _FILE.search(body) if len(body) < 50_000 else None
    if file is not None:
        return f"=== file: {file[1].decode()} ===\n{_LINES}=== end ==="
    return f"Answer {number}. {ANSWER}"


def completion(body: bytes, number: int) -> bytes:
    """The answer as the protocol carries it, with its usage: one token for four bytes."""
    said = answer(body, number)
    asked, given = len(body) // 4, len(said) // 4
    return json.dumps({
        "id": "chatcmpl-0", "object": "chat.completion", "created": 1700000000, "model": "mock",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": said, "refusal": None}, "logprobs": None,
                     "finish_reason": "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given,
                  "prompt_tokens_details": {"cached_tokens": 0}},
    }).encode()


class Endpoint(asyncio.Protocol):
    """One connection, kept open; a client sends its next request when it has its answer."""

    def __init__(self, seen: Seen) -> None:
        self._seen, self._read, self._whole = seen, bytearray(), 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Gathers a request until it is whole."""
        self._read += data
        if not self._whole:
            end = self._read.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._read, 0, end + 2)
            self._whole = end + 4 + (int(length[1]) if length else 0)
        if len(self._read) >= self._whole:
            request, self._read, self._whole = bytes(self._read[:self._whole]), self._read[self._whole:], 0
            self._take(request)

    def _take(self, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1]
        if path == b"/first":
            self._send(json.dumps([self._seen.first, self._seen.requests]).encode())
            self._seen.first, self._seen.requests = None, 0
            return
        if path.startswith(b"/v1/"):
            self._send(b"")
            return
        if self._seen.first is None:
            self._seen.first = time.monotonic()
        self._seen.requests += 1
        self._seen.ever += 1
        wait = int(path.split(b"/", 2)[1]) / 1000
        if wait:
            asyncio.get_running_loop().call_later(wait, self._send, completion(body, self._seen.ever))
        else:
            self._send(completion(body, self._seen.ever))

    def _send(self, body: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def serve() -> None:
    """Until standard input closes."""
    loop, seen = asyncio.get_running_loop(), Seen()
    server = await loop.create_server(lambda: Endpoint(seen), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
