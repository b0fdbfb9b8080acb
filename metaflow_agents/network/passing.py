"""What all connections through one proxy share: who grants, who resolves, which keys, which limits, who is told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from metaflow_agents.errors import FetchFailed
from metaflow_agents.network.guard import Guard
from metaflow_agents.network.hosts import NetworkPlace
from metaflow_agents.network.keys import HeadersFor
from metaflow_agents.network.wire import Granted

Verdict = Literal["allowed", "refused", "failed", "cut"]
Decided = Callable[[NetworkPlace | str, Verdict, str], Awaitable[None]]
"""Told each decision before it takes effect: the place (or what was asked for, escaped, where that means no place), and why."""


class Cut(Exception):
    """More bytes than pass."""


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """`connections` at once; bytes of a request's `header`, of its `body` (held in memory), and `passed` in each direction of
    a tunnel or in an answer; seconds until a `head` has come (of a request, of TLS), and for each part of the rest.
    """

    connections: int = 32
    header: int = 32_768
    body: int = 8_000_000
    passed: int = 256_000_000
    head: float = 10.0
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Passing:
    """See the fields' types."""

    granted: Granted
    guard: Guard
    headers_for: HeadersFor
    decided: Decided
    limits: ProxyLimits
    tls: ssl.SSLContext | None

    @asynccontextmanager
    async def in_time(self, place: NetworkPlace) -> AsyncIterator[None]:
        """Raises FetchFailed where it takes longer than the limit."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                yield
        except TimeoutError:
            raise FetchFailed(f"{place.origin} took longer than {self.limits.seconds:g} seconds") from None
