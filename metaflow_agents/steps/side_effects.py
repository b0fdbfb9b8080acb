"""What was not determined, recorded before anything is built on it (journal rule 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.event import Observed
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.payload import held, stored


class Observations:
    """Runs something whose outcome is not determined once per key: a resume is answered from the journal."""

    def __init__(self, bus: Bus, state: RunState, values: Values) -> None:
        self._bus, self._state, self._values = bus, state, values

    async def once(self, key: str, look: Callable[[], Awaitable[Any]]) -> Any:
        """The value that `look` gave under this key, now or before a crash: what `schema.payload.held` stores."""
        activation = parse_activation(key)
        recorded = self._state.active[activation.firing].slot(activation.item).observed.get(key)
        if recorded is not None:
            return self._values.plain(recorded)
        await self._bus.sync()                      # what it acts on is on disk before it acts
        loop = asyncio.get_running_loop()
        started = loop.time()
        value = await look()
        payload, blobs = held(value)
        observed = Observed(key=key, payload=stored(payload, blobs), seconds=loop.time() - started)
        await self._bus.publish(observed, blobs=blobs)
        return value
