"""One exchange with an endpoint: the request out, and of what comes back no more than an answer can have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from metaflow_agents.models.endpoint.answer import EndpointAnswer, Malformed, ToldError, Transcript, is_stream, whole_answer
from metaflow_agents.models.endpoint.body import PreparedRequest
from metaflow_agents.models.endpoint.broken import broken, wire_faults
from metaflow_agents.models.endpoint.clients import CONNECTING, Client
from metaflow_agents.models.endpoint.learned import Learned
from metaflow_agents.models.endpoint.refusals import Asker, Refusal, refused, told_error
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest

if TYPE_CHECKING:
    from httpx2 import Response

_LINGER = 5.0                           # seconds for the counts, once a stream told its end
_SLOWEST = 1.0                          # seconds a token: an answer that takes longer has no end
_ROOM = 2**20                           # bytes of an answer besides those of its tokens
_A_TOKEN = 1024                         # bytes at most, with all that stands around it in a stream
_OF_A_REFUSAL = 2**16                   # bytes that are read of what is no answer


class Exchange:
    """One request over the wire. Raises CallFailed, and nothing else, for whatever comes of it."""

    def __init__(self, asker: Asker, silence: float, client: Client, request: ModelRequest, prepared: PreparedRequest,
                 learned: Learned) -> None:
        self._asker, self._silence, self._client, self._prepared, self._learned = asker, silence, client, prepared, learned
        self._longest = request.max_tokens
        self._most = _ROOM + _A_TOKEN * request.max_tokens
        self._transcript = Transcript(request.watch)
        self._events: bool | None = None
        self._start = bytearray()

    async def answer(self) -> EndpointAnswer:
        """What came back."""
        try:
            return await self._bounded()
        except Malformed as fault:
            charged = None if fault.usage is None else fault.usage.tokens
            raise CallFailed(f"the endpoint {self._asker.url}: {fault}", then="again", charged=charged) from None
        except ToldError as told:
            raise told_error(told.error, told.begun, self._asker, self._prepared, self._learned, self._longest) from None

    async def _bounded(self) -> EndpointAnswer:
        whole = self._silence + CONNECTING + _SLOWEST * self._longest
        try:
            async with asyncio.timeout(whole) as limit:
                await self._sent(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            if not self._complete():
                raise CallFailed(f"the endpoint {self._asker.url} has not ended its answer after {whole:,.0f} s", then="fail",
                                 charged=None, silent=True) from None
        except wire_faults() as error:
            if not self._complete():                # what was whole stays so, whatever became of the connection
                raise broken(error, self._asker.url, self._learned, self._silence) from error
        return self._transcript.answer() if self._events else whole_answer(bytes(self._start))

    def _complete(self) -> bool:
        """Whether the answer is here although the connection did not end as it should."""
        if self._events is not False:
            return self._transcript.complete
        try:
            whole_answer(bytes(self._start))
        except (Malformed, ToldError):
            return False
        return True

    async def _sent(self, limit: asyncio.Timeout) -> None:
        response = await send(self._client, "POST", "/chat/completions", self._prepared.body, self._silence)
        try:
            self._learned.unreached = 0
            if response.status_code not in (200, 201):
                body = await read(response, _OF_A_REFUSAL)
                headers = {name.lower(): value for name, value in response.headers.items()}
                raise refused(Refusal(response.status_code, headers, body), self._asker, self._prepared, self._learned,
                              self._longest)
            await self._received(response, limit)
        finally:
            await response.aclose()

    async def _received(self, response: Response, limit: asyncio.Timeout) -> None:
        clock = asyncio.get_running_loop().time
        size, heard = 0, clock()
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > self._most and not self._transcript.complete:
                raise CallFailed(f"the endpoint {self._asker.url} sent more than {self._most:,} bytes for an answer of at most "
                                 f"{self._longest:,} tokens", then="fail", charged=None)
            told = self._take(chunk)
            if not self._events:
                continue
            if self._transcript.complete:
                if size > self._most:
                    return
                limit.reschedule(min(limit.when() or 0.0, clock() + _LINGER))
            elif told:
                heard = clock()
            elif clock() - heard > self._silence:
                raise CallFailed(f"the endpoint {self._asker.url} kept the connection open and said nothing for "
                                 f"{self._silence:g} s", then="again", charged=None, silent=True)

    def _take(self, chunk: bytes) -> bool:
        if self._events:
            return self._transcript.feed(chunk)
        self._start += chunk
        if self._events is None:
            self._start = bytearray(self._start.lstrip())       # blanks keep the connection open while it thinks
            self._events = is_stream(bytes(self._start[:64]))
            if self._events:
                return self._transcript.feed(bytes(self._start))
        return True


async def send(client: Client, method: str, path: str, body: bytes | None, silence: float) -> Response:
    """A request, and its response as soon as its headers are there; to be closed by the caller."""
    from httpx2 import Request

    http = client.http
    timeout = {"connect": min(CONNECTING, silence), "read": silence, "write": silence, "pool": None}
    request = Request(method, client.address(path), headers=client.headers, content=body, extensions={"timeout": timeout})
    return await http.send(request, stream=True)


async def read(response: Response, most: int) -> bytes:
    """The beginning of a body."""
    found = bytearray()
    async for chunk in response.aiter_bytes():
        found += chunk
        if len(found) >= most:
            break
    return bytes(found[:most])
