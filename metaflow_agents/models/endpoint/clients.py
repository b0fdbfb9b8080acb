"""The connections to endpoints: one client per base URL and key, shared by all roles of all runs in an event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from httpx2 import URL, AsyncClient

CONNECTING = 30.0                   # seconds until somebody has to be there
_MOST = 4096                        # connections at once
_SPARE = 128                        # files that a process needs for other things
_KEPT_OPEN = 4.0                    # seconds that a connection idles: servers that close theirs after 5 are common


class Client:
    """A client with what every request to its endpoint carries. It connects, and is loaded, at its first request."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url, self._key = url, key
        self.users = 0
        self._http: AsyncClient | None = None
        self.headers: list[tuple[str, str]] = []
        self._addresses: dict[str, URL] = {}

    @property
    def http(self) -> AsyncClient:
        """The transport of the `openai` package that is not quadratic in the number of connections."""
        if self._http is None:
            self._http = self._opened()
        return self._http

    def address(self, path: str) -> URL:
        """Where a path below the base URL is; parsed once."""
        if path not in self._addresses:
            from httpx2 import URL

            self._addresses[path] = URL(self.url + path)
        return self._addresses[path]

    def _opened(self) -> AsyncClient:
        import httpx2
        import openai

        limits = httpx2.Limits(max_connections=_connections(), keepalive_expiry=_KEPT_OPEN)
        http = openai.DefaultAioHttpClient(verify=_tls(self.url.startswith("https:")), limits=limits, follow_redirects=False)
        # The package says who asks, and for whom. Its own way of sending costs twice what the transport does.
        client = openai.AsyncOpenAI(api_key=self._key or "none", base_url=self.url, http_client=http, max_retries=0)
        told = {**client.default_headers, **(client.auth_headers if self._key else {})}
        self.headers = [(name, value) for name, value in told.items()
                        if isinstance(value, str) and not name.lower().startswith("x-stainless")]
        return http

    async def close(self) -> None:
        """Ends its connections."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()


_OPEN: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str | None], Client]] = WeakKeyDictionary()


def joined(url: str, key: str | None) -> Client:
    """The client of this event loop for an endpoint, with one user more; every `joined` needs its `left`."""
    clients = _OPEN.setdefault(asyncio.get_running_loop(), {})
    client = clients.get((url, key))
    if client is None:
        client = clients[url, key] = Client(url, key)
    client.users += 1
    return client


async def left(url: str, key: str | None) -> None:
    """One user less; the last one closes it."""
    clients = _OPEN[asyncio.get_running_loop()]
    client = clients[url, key]
    client.users -= 1
    if not client.users:
        del clients[url, key]
        await client.close()


@asynccontextmanager
async def using(url: str, key: str | None) -> AsyncIterator[Client]:
    """The client, for as long as it is used here."""
    client = joined(url, key)
    try:
        yield client
    finally:
        await left(url, key)


def open_clients() -> int:
    """How many clients this event loop has."""
    return len(_OPEN.get(asyncio.get_running_loop(), {}))


@cache
def _tls(secure: bool) -> ssl.SSLContext:
    """One context for all clients: reading the certificates takes longer than many calls. A plain endpoint gets one that
    trusts nobody, which takes no time.
    """
    import httpx2

    return httpx2.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _connections() -> int:
    """As many as the process may have files, but for some."""
    try:
        import resource
    except ImportError:                     # a system without such limits
        return _MOST
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if allowed == resource.RLIM_INFINITY else max(16, min(_MOST, allowed - _SPARE))
