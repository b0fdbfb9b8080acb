"""CONNECT: a tunnel to a granted host, for TLS to that very host and for nothing else.

What is said inside cannot be seen here, so a tunnel is granted for a host as a whole (a `NetworkPlace` without a path), gets no
keys, and carries only a TLS whose hello names the host that was granted. Behind one address several hosts may live: that a server
answers for another one in spite of the name in the hello is up to that server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from metaflow_agents.errors import FetchRefused
from metaflow_agents.network import hello
from metaflow_agents.network.caller import CallerGone, HTTPCaller
from metaflow_agents.network.hosts import NetworkPlace
from metaflow_agents.network.passing import Cut, Passing

_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Tunnel:
    """What a caller asks to be connected to."""

    passing: Passing
    caller: HTTPCaller
    place: NetworkPlace

    async def run(self) -> None:
        """Raises FetchRefused, FetchFailed, CallerGone, Cut."""
        await self.passing.granted(self.place)
        async with self.passing.in_time(self.place):
            sock = await self.passing.guard.connected(self.place)
            try:
                reader, writer = await asyncio.open_connection(sock=sock)
            except BaseException:
                sock.close()
                raise
        try:
            await self.passing.decided(self.place, "allowed", "a tunnel, as it is granted")
            await self.caller.begin(200, [])
            first = await self._hello()
            async with self.passing.in_time(self.place):
                await self._relayed(first, reader, writer)
        finally:
            writer.transport.abort()

    async def _hello(self) -> bytes:
        """What the caller sends first, once it is known to be TLS to the host. Nothing of it goes out before."""
        data = self.caller.rest()
        seconds = self.passing.limits.head
        try:
            async with asyncio.timeout(seconds):
                while (found := hello.read(data)) is None:
                    more = await self.caller.reader.read(_CHUNK)
                    if not more:
                        raise CallerGone
                    data += more
        except hello.OddHello as error:
            raise FetchRefused(f"a tunnel to {self.place.authority} carries TLS to it alone: {error}") from None
        except TimeoutError:
            raise FetchRefused(f"no TLS came through the tunnel to {self.place.authority} within {seconds:g} seconds") from None
        except OSError as error:
            raise CallerGone from error
        expected = None if self.place.address is not None else self.place.host     # addresses are not named (RFC 6066 3)
        if found.name != expected and found.name != self.place.host:
            named = "no name" if found.name is None else f"`{ascii(found.name)[1:-1]}`"
            raise FetchRefused(f"a tunnel to {self.place.authority} carries TLS to it alone, and its hello has {named}")
        return data

    async def _relayed(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both directions until both have ended; a connection that breaks ends them."""
        cut = ""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._passed(first, self.caller.reader, writer))
                tasks.create_task(self._passed(b"", reader, self.caller.writer))
        except* OSError:
            pass                    # one side is gone, and with it what the other had to say
        except* Cut as group:
            cut = str(group.exceptions[0])
        if cut:
            raise Cut(cut)

    async def _passed(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        data = first or await reader.read(_CHUNK)
        while data:
            passed += len(data)
            if passed > self.passing.limits.passed:
                raise Cut(f"more than {self.passing.limits.passed} bytes through the tunnel to {self.place.authority}")
            writer.write(data)
            await writer.drain()
            data = await reader.read(_CHUNK)
        writer.write_eof()
