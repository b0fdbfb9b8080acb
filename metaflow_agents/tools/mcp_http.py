"""MCP over streamable HTTP, by the `mcp` package's transport, with bounds on what an answer may hold.

Redirects are followed within the server's origin only, which is the package's own rule: no header reaches another host.

Loaded by the first server of a run that needs it, never earlier: it imports `mcp` and `httpx2`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2
from mcp.client.streamable_http import streamable_http_client

from metaflow_agents.tools.mcp_connection import MESSAGE_BYTES, TOO_LONG
from metaflow_agents.tools.mcp_process import Heard

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS = 10.0
_STREAM = "text/event-stream"


class _Counted(httpx2.AsyncByteStream):
    """The body of one answer; more than a message may hold is an error."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for data in self._stream:
            total += len(data)
            if total > MESSAGE_BYTES:
                raise httpx2.RemoteProtocolError(TOO_LONG)
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(slots=True)
class HttpTransport:
    """How to reach a server over HTTP. `heard` holds the statuses of refused requests."""

    url: str
    headers: Mapping[str, str]
    heard: Heard = field(default_factory=Heard)
    why: str = ""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """The messages of the server and to it; leaving it takes leave of the server."""
        silence = httpx2.Timeout(None, connect=_CONNECT_SECONDS)        # how long a call may take is each call's own matter
        headers = {"accept-encoding": "identity", **self.headers}       # packed, a few bytes could become gigabytes
        async with (
            httpx2.AsyncClient(headers=headers, timeout=silence, event_hooks={"response": [self._bounded]}) as client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=MESSAGE_BYTES) as streams,
        ):
            yield streams

    async def _bounded(self, response: httpx2.Response) -> None:
        """Looks at each answer before its body is read."""
        if response.status_code >= 400 and response.request.method == "POST":
            self.heard.add(f"HTTP {response.status_code} {response.reason_phrase}\n".encode())
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.RemoteProtocolError("it sent a packed answer, which it was not asked for")
        if not response.headers.get("content-type", "").lower().startswith(_STREAM):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream)
