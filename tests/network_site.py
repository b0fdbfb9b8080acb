"""Real servers on loopback that stand for hosts of the public internet.

    async with Site({"/": {"body": "hello"}}) as site:
        await fetch(FetchRequest("https://api.example.com/"), granted=..., guard=site.guard(), tls=site.tls)

Names resolve to the public addresses of `names`, a list of answers each, the last of which stays; `site.asked` counts questions.
A connection to any address is made to the servers here, and `site.dialled` has the address that was meant: nothing leaves this
machine. Ports below 1024 other than 443 speak plain HTTP, all others TLS, with certificates of `site.certificates`.

What a path answers: `body`, `status`, `location`, `echo` (the headers that came), `gzip`, `encoding` (said, not done), `size`
(bytes), `endless`, `breaks`, `header_size`; what is not there answers `hello`.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import trustme

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network.guard import Guard
from metaflow_agents.network.hosts import NetworkPlace

KEY = "sk-planted-canary-4f9c1e7a2b"
CALLERS_OWN = "sk-callers-own-0123456789"
PUBLIC = {
    "api.example.com": "93.184.215.14", "other.example.com": "93.184.215.15", "open.example.com": "93.184.215.16",
    "plainkey.example.com": "93.184.215.17", "impostor.example": "93.184.215.18", "evil.example": "93.184.215.19",
    "metadata.example.com": "169.254.169.254", "inside.example.com": "127.0.0.1",
}


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def server_certificate() -> trustme.LeafCert:
    return authority().issue_cert(*(name for name in PUBLIC if name != "impostor.example"))


@dataclass(slots=True)
class Seen:
    """A request as it arrived."""

    line: str
    host: str
    headers: str
    body: bytes = b""


@dataclass
class Site:
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    names: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    dialled: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    received: int = 0

    async def __aenter__(self) -> Self:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_certificate().configure_cert(server)
        self.tls = ssl.create_default_context()
        authority().configure_trust(self.tls)
        self._plain = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._secure = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=server)
        self._open: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._plain.close()
        self._secure.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    def guard(self, private: Iterable[str] = ()) -> Guard:
        return Guard(private, resolve=self.resolve, sockets=self._socket)

    async def resolve(self, host: str) -> Sequence[str]:
        told = self.names.get(host, [[PUBLIC[host]] if host in PUBLIC else []])
        self.asked[host] += 1
        await asyncio.sleep(0)
        return told[min(self.asked[host], len(told)) - 1]

    def keys_at(self) -> list[str]:
        """The hosts that saw a key."""
        return sorted({seen.host for seen in self.seen if KEY in seen.headers or CALLERS_OWN in seen.headers})

    def _socket(self, info: Sequence[Any]) -> socket.socket:
        return _Redirected(self, info[0], info[1])

    def server_of(self, address: Sequence[Any]) -> tuple[str, int]:
        server = self._plain if int(address[1]) < 1024 and address[1] != 443 else self._secure
        return server.sockets[0].getsockname()[:2]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.received += len(head)
        line, _, headers = head.partition("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in headers.splitlines())}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        self.seen.append(Seen(line, fields["host"].partition(":")[0], headers, body))
        how = dict(self.answers.get(line.split()[1], {"body": "hello"}))
        out, status = how.get("body", "").encode(), how.get("status", 200)
        extra = f"Location: {how['location']}\r\n" if "location" in how else ""
        if "echo" in how:
            out = headers.encode("latin-1")
            extra += f"X-Echo: {fields.get('authorization', '')}\r\n"
        out = b"x" * how.get("size", 0) or out
        if "gzip" in how:
            out, extra = gzip.compress(out), f"{extra}Content-Encoding: gzip\r\n"
        if "encoding" in how:
            extra += f"Content-Encoding: {how['encoding']}\r\n"
        if "header_size" in how:
            extra += f"X-Large: {'y' * how['header_size']}\r\n"
        if "breaks" in how:
            writer.transport.abort()
            return
        length = 10**9 if "endless" in how else len(out)
        out = b"" if line.startswith("HEAD ") else out
        writer.write(f"HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\n{extra}\r\n".encode() + out)
        await writer.drain()
        while "endless" in how:
            writer.write(b"z")
            await writer.drain()
            await asyncio.sleep(0.05)


class _Redirected(socket.socket):
    """Connects to the servers of a site, and notes which address was meant."""

    def __init__(self, site: Site, family: int, kind: int) -> None:
        super().__init__(socket.AF_INET, kind)
        self._site = site

    def connect(self, address: Any) -> None:
        self._site.dialled.append(str(address[0]))
        super().connect(self._site.server_of(address))


def granting(origins: Iterable[str]) -> Any:
    """A policy that grants these origins; `*` grants all."""
    allowed = set(origins)

    async def granted(place: NetworkPlace) -> None:
        if "*" not in allowed and place.origin not in allowed:
            raise FetchRefused(f"{place.origin} is not granted")

    return granted


def keys(place: NetworkPlace) -> Mapping[str, str]:
    """The key is for one origin, and for another that has no encryption."""
    if place.origin in ("https://api.example.com", "http://plainkey.example.com"):
        return {"Authorization": f"Bearer {KEY}"}
    return {}


class Told:
    """What a proxy said that it decided."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, str]] = []

    async def __call__(self, place: NetworkPlace | str, verdict: str, why: str) -> None:
        self.all.append((str(place), verdict, why))
