"""The models that an endpoint says it has."""

from __future__ import annotations

import asyncio
from typing import Any

from metaflow_agents.models.endpoint.broken import wire_faults
from metaflow_agents.models.endpoint.clients import Client
from metaflow_agents.models.endpoint.exchange import read, send
from metaflow_agents.texts.strict_json import read as read_json

_PATIENCE = 10.0                        # seconds
_LONGEST = 2**22                        # bytes


async def known_models(client: Client) -> list[str]:
    """Their names; none where the endpoint tells no list."""
    faults: tuple[type[Exception], ...] = (TimeoutError, ValueError, *wire_faults())
    try:
        async with asyncio.timeout(_PATIENCE):
            response = await send(client, "GET", "/models", None, _PATIENCE)
            try:
                told: Any = read_json(await read(response, _LONGEST), lenient=True) if response.status_code == 200 else None
            finally:
                await response.aclose()
    except faults:
        return []                       # it is asked for a mend only, and the fault itself is told without
    if isinstance(told, dict):
        told = told.get("data") or told.get("models")
    names = [each.get("id") or each.get("name") if isinstance(each, dict) else each for each in told or []] \
        if isinstance(told, list) else []
    return [name for name in names if isinstance(name, str)]
