"""One request and its answer over a pinned address; what the transport raises is translated here, once."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from metaflow_agents.errors import FetchFailed, FetchRefused
from metaflow_agents.network.guard import Guard, Pinned
from metaflow_agents.network.hosts import NetworkPlace
from metaflow_agents.network.keys import Mask

if TYPE_CHECKING:
    import aiohttp

Granted = Callable[[NetworkPlace], Awaitable[None]]
"""Asked before a place is resolved or connected to, for each redirect again. Raises FetchRefused, or another RunError."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-authenticate",
                  "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade", "expect", "http2-settings"})
"""Headers that belong to one connection, or say where a message ends (RFC 9110 7.6.1): only this side of the wire sets them."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")


def method_of(text: str) -> str:
    """The method as it is sent. Raises FetchRefused for one that is not known, TRACE and CONNECT among them."""
    method = text.upper()
    if method not in METHODS:
        raise FetchRefused(f"the method `{ascii(text)[1:-1]}` is refused: there is {', '.join(METHODS)}")
    return method


def refuse_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Raises FetchRefused for a header that would change where a message goes or ends; its value is not told."""
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise FetchRefused(f"`{ascii(name)[1:-1]}` can't be the name of a header")
        if name.lower() in OURS:
            raise FetchRefused(f"the header `{name}` can't be set: it belongs to the connection")
        if not _VALUE.fullmatch(value):
            raise FetchRefused(f"the value of the header `{name}` has a line break or another control character")


@cache
def system_tls() -> ssl.SSLContext:
    """Certificates that this machine trusts."""
    return ssl.create_default_context()


@asynccontextmanager
async def exchanged(
    place: NetworkPlace,
    method: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    pinned: Pinned,
    guard: Guard,
    keys: Mapping[str, str],
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Sends one request on a connection of its own, and gives its answer, the body neither read nor unpacked.

    `keys` replace headers of the same name. No redirect is followed, no cookie kept, no proxy of the environment used.
    Raises FetchFailed for what goes wrong on the wire, here and while the body is read.
    """
    import aiohttp
    from yarl import URL

    refuse_headers((*headers, *keys.items()))
    own = {name.lower() for name in keys}
    sent = [(name, value) for name, value in headers if name.lower() not in own] + list(keys.items())
    connector = aiohttp.TCPConnector(resolver=cast(Any, _Resolver(pinned)), socket_factory=cast(Any, guard.made_socket),
                                     use_dns_cache=False, force_close=True, limit=1, ssl=tls or system_tls())
    mask = Mask(keys)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
                                  trust_env=False, timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.request(method, URL(place.url, encoded=True), headers=sent, data=body, allow_redirects=False,
                            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent")) as response,
        ):
            yield response
    except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
        # Without its cause: what the transport raises holds the request, and so the key.
        raise FetchFailed(mask.over_text(_told(error, place))[:500]) from None


class _Resolver:
    """Gives a connector the addresses that were checked, and no others."""

    def __init__(self, pinned: Pinned) -> None:
        self._pinned = pinned

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:
        if host != self._pinned.host:
            raise OSError(f"`{host}` is not `{self._pinned.host}`")
        return [{"hostname": host, "host": address, "port": port, "family": _family(address), "proto": 0, "flags": 0}
                for address in self._pinned.addresses]

    async def close(self) -> None:
        """Nothing is held."""


def _family(address: str) -> int:
    import socket

    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _told(error: Exception, place: NetworkPlace) -> str:
    import aiohttp

    said = " ".join(str(error).split())
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return f"the certificate of {place.origin} is not trusted: {said}"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return f"{place.origin} can't be spoken to with TLS: {said}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{place.origin} can't be reached: {said}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return f"{place.origin} closed the connection before it answered"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"{place.origin} closed the connection in the middle of its answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{place.origin} answered with what can't be taken as HTTP: {error.message.partition(':')[0]}"
    return f"the connection to {place.origin} broke: {said}"
