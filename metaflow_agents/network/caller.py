"""One connection from inside the sandbox: a single request, read strictly by h11, and its answer.

One request a connection: what stands behind it is never read, so nothing can be smuggled there (RFC 9112 11.2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus

import h11

LINGER = 2.0                        # seconds that a refused caller has to hear why, before it is hung up on
_CHUNK = 65536

Headers = list[tuple[str, str]]


class NetworkRefusal(Exception):
    """A caller gets no more than this: a status, and why."""

    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(why)


class CallerGone(Exception):
    """The caller hung up."""


class HTTPCaller:
    """Reads its request and writes the answer. Raises Refusal and CallerGone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, longest_header: int) -> None:
        self.reader, self.writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=longest_header)
        self.method, self.target = "", ""
        self.headers: Headers = []
        self.begun = False          # an answer is under way

    async def request(self) -> None:
        """Reads method, target and headers (names in lower case)."""
        event = await self._event()
        if not isinstance(event, h11.Request):
            raise CallerGone
        self.method, self.target = event.method.decode("latin-1"), event.target.decode("latin-1")
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers]
        names = [name for name, _ in self.headers]
        if "transfer-encoding" in names and "content-length" in names:
            raise NetworkRefusal(
                400, "Transfer-Encoding and Content-Length together: they say two things about where the body ends"
            )

    def header(self, name: str) -> str | None:
        """The first value of a header, given in lower case."""
        return next((value for each, value in self.headers if each == name), None)

    async def body(self, cap: int) -> bytes:
        """Reads the body, of at most `cap` bytes."""
        told = self.header("content-length")
        if told is not None and int(told) > cap:
            raise NetworkRefusal(413, f"the body is longer than {cap} bytes")
        whole = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            whole += event.data
            if len(whole) > cap:
                raise NetworkRefusal(413, f"the body is longer than {cap} bytes")
        return bytes(whole)

    async def begin(self, status: int, headers: Headers) -> None:
        """Writes the head of an answer. To CONNECT, 200 makes a tunnel of the connection."""
        tunnel = self.method == "CONNECT" and status == 200
        closing = [] if tunnel else [("connection", "close")]
        response = h11.Response(status_code=status, reason=_reason(status), headers=[*headers, *closing])
        await self._write(self._http.send(response) or b"")
        self.begun = True

    async def send(self, data: bytes) -> None:
        """Writes a part of the body."""
        await self._write(self._http.send(h11.Data(data=data)) or b"")

    async def end(self) -> None:
        """Ends the answer."""
        await self._write(self._http.send(h11.EndOfMessage()) or b"")

    async def refuse(self, status: int, why: str) -> None:
        """Answers with a line of text, then waits a little while the caller still talks, so that it hears the answer."""
        text = f"{why}\n".encode()
        with suppress(CallerGone):
            await self.begin(status, [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(text)))])
            if self.method != "HEAD":
                await self.send(text)
            await self.end()
            await self._linger()

    def rest(self) -> bytes:
        """What came behind the head of a CONNECT already."""
        return bytes(self._http.trailing_data[0])

    async def close(self) -> None:
        """Ends the connection, once what was written has gone out or the caller has had time to take it."""
        self.writer.close()
        try:
            async with asyncio.timeout(LINGER):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            self.writer.transport.abort()

    async def _linger(self) -> None:
        with suppress(OSError, TimeoutError):
            self.writer.write_eof()
            async with asyncio.timeout(LINGER):
                while await self.reader.read(_CHUNK):
                    pass

    async def _event(self) -> object:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise NetworkRefusal(error.error_status_hint, f"that is no HTTP request: {error}") from error
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            try:
                self._http.receive_data(await self.reader.read(_CHUNK))
            except OSError as error:
                raise CallerGone from error

    async def _write(self, data: bytes) -> None:
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise CallerGone from error


def _reason(status: int) -> str:
    with suppress(ValueError):
        return HTTPStatus(status).phrase
    return ""


def writable(headers: Sequence[tuple[str, str]]) -> bool:
    """Whether these headers of somebody else's answer can be written as HTTP."""
    try:
        h11.Response(status_code=200, headers=list(headers))
    except h11.LocalProtocolError:
        return False
    return True
