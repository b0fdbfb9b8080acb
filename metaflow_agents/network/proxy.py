"""The one way from the sandbox to granted hosts: an HTTP proxy in the parent, on a Unix socket that is shown inside.

    async with Proxy(folder, granted=granted, guard=guard, headers_for=headers_for, decided=decided) as proxy:
        ...  # `proxy.socket` is bound into the sandbox, where `bridge.py` listens on its loopback and passes on to it

`GET http://HOST/…` is sent by the parent, which adds the keys of that place; where HOST is granted with https and not with http,
by https. `CONNECT HOST:443` makes a tunnel that carries TLS to HOST, and no keys. A redirect is passed back: who follows it asks
again.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

from metaflow_agents.errors import FetchFailed, FetchRefused, RunError
from metaflow_agents.network.caller import CallerGone, HTTPCaller, NetworkRefusal
from metaflow_agents.network.forward import Forward, asked_for, same_host
from metaflow_agents.network.guard import Guard
from metaflow_agents.network.hosts import NetworkPlace, parse_authority
from metaflow_agents.network.keys import HeadersFor, no_keys
from metaflow_agents.network.passing import Cut, Decided, Passing, ProxyLimits, Verdict
from metaflow_agents.network.tunnel import Tunnel
from metaflow_agents.network.wire import Granted

SOCKET = "proxy.sock"
LONGEST_SOCKET = 107                # bytes of a Unix socket's path (`sun_path` of unix(7), less its NUL)
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Proxy:
    """Listens while it is open; at its end every connection is closed.

    `folder` exists, and nobody else may write to it. `owner`: the user id that may connect, where that is not this process's
    (root alone can say so). `granted` raises FetchRefused for what a caller then gets as 403; whatever else it or `decided`
    raises ends the proxy, and reaches who opened it in an ExceptionGroup. Raises RunError where there can be no socket.
    """

    def __init__(
        self,
        folder: Path,
        *,
        granted: Granted,
        guard: Guard,
        decided: Decided,
        headers_for: HeadersFor = no_keys,
        limits: ProxyLimits | None = None,
        tls: ssl.SSLContext | None = None,
        owner: int | None = None,
    ) -> None:
        self.socket = folder / SOCKET
        self._passing = Passing(granted, guard, headers_for, decided, limits or ProxyLimits(), tls)
        self._owner = owner
        self._tasks = asyncio.TaskGroup()
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        if len(os.fsencode(self.socket)) > LONGEST_SOCKET:
            raise RunError(f"`{self.socket}` is too long for a socket: at most {LONGEST_SOCKET} bytes; give a shorter folder")
        try:
            self._server = await asyncio.start_unix_server(self._accept, self.socket)
            os.chmod(self.socket, 0o600)
            if self._owner is not None:
                os.chown(self.socket, self._owner, -1)
        except OSError as error:
            self._shut()
            raise RunError(f"there can be no socket at `{self.socket}`: {error.strerror}") from error
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._shut()
        for task in self._open:
            task.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self.socket.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._passing.limits.connections:
            writer.write(_BUSY)
            writer.close()
            return
        task = self._tasks.create_task(self._served(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = HTTPCaller(reader, writer, self._passing.limits.header)
        try:
            await self._answered(caller)
        except CallerGone:
            pass                    # nobody is there to be told
        except BaseException:
            writer.transport.abort()
            raise
        await caller.close()

    async def _answered(self, caller: HTTPCaller) -> None:
        """Every way in which a request can end is told to `decided`, and to the caller while it can still be told."""
        place: NetworkPlace | str = "?"
        try:
            await self._head(caller)
            place = ascii(caller.target)[1:-1][:300]
            place = parsed = _place(caller)
            await (Tunnel if caller.method == "CONNECT" else Forward)(self._passing, caller, parsed).run()
        except NetworkRefusal as error:
            await self._ended(caller, place, "refused", error.status, error.why)
        except FetchRefused as error:
            await self._ended(caller, place, "refused", 403, str(error))
        except FetchFailed as error:
            await self._ended(caller, place, "failed", 502, str(error))
        except Cut as error:
            await self._ended(caller, place, "cut", 502, str(error))

    async def _head(self, caller: HTTPCaller) -> None:
        seconds = self._passing.limits.head
        try:
            async with asyncio.timeout(seconds):
                await caller.request()
        except TimeoutError:
            raise NetworkRefusal(408, f"no whole request came within {seconds:g} seconds") from None

    async def _ended(self, caller: HTTPCaller, place: NetworkPlace | str, verdict: Verdict, status: int, why: str) -> None:
        await self._passing.decided(place, verdict, why)
        if caller.begun:
            caller.writer.transport.abort()
        else:
            await caller.refuse(status, why)


def _place(caller: HTTPCaller) -> NetworkPlace:
    """What the request line means. Raises Refusal."""
    try:
        if caller.method != "CONNECT":
            return asked_for(caller)
        place = parse_authority(caller.target)
    except FetchRefused as error:
        raise NetworkRefusal(400, str(error)) from None
    same_host(caller, place)
    return place
