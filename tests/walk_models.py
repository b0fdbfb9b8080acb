"""Models that answer in `walk_pairs.py`, so that what a key changes shows."""

from __future__ import annotations

import asyncio
from typing import Any

from metaflow_agents.models.dry import DryModel
from metaflow_agents.models.port import MAX_TOKENS, ModelRequest, Reply, Traits
from metaflow_agents.models.pricing import Flat
from metaflow_agents.schema.endpoint import EndpointModel


async def dry(request: ModelRequest) -> Any:
    """The smallest answer; unlike the `dry` model itself it lets commands, functions and checks run."""
    return await DryModel().ask(request)


async def embeds(request: ModelRequest) -> Any:
    """The memory of snow is long, and that of tea points where the last question does; whales are embedded alike by nobody."""
    if not request.embeds:
        return await dry(request)
    return [[9.0, 9.0] if "snow" in text else [1.0, 0.0] if "tea" in text or "again" in text else [0.0, 1.0]
            for text in request.texts]


async def slow(request: ModelRequest) -> Any:
    """Longer than the caps on time."""
    await asyncio.sleep(0.15)
    return await dry(request)


async def unhurried(request: ModelRequest) -> Any:
    """Lets the others go on many times before it answers, without a clock."""
    for _ in range(50):
        await asyncio.sleep(0)
    return await dry(request)


async def wrong_at_b(request: ModelRequest) -> Any:
    """Fails for the item `b`: a repair is answered no better."""
    return "no number" if "[b]" in request.key else 1


async def wrong_at_first(request: ModelRequest) -> Any:
    """No number in the first attempt, a number in the second."""
    return "no number" if "~0" in request.key else 1


class Metered:
    """A model with an endpoint of its own and a price; it answers 1 where others were asked meanwhile, else 0."""

    def __init__(self, endpoint: str) -> None:
        self.name = "metered"
        self.traits = Traits(endpoint=f"http://{endpoint}", tariff=Flat(10**6, 10**6, 10**6))
        self._under_way = 0

    async def ask(self, request: ModelRequest) -> Reply:
        self._under_way += 1
        most = self._under_way
        for _ in range(50):
            await asyncio.sleep(0)
            most = max(most, self._under_way)
        self._under_way -= 1
        return Reply(str(int(most > 1)), tokens_in=100, tokens_out=1)


class StandIn:
    """Stands where the adapter to an endpoint stands, and answers with what it was given instead of asking anybody."""

    def __init__(self, spec: EndpointModel, key: str | None, base_url: str | None) -> None:
        self.name = f"openai:{spec.name}"
        own = {} if spec.temperature is None else {"temperature": spec.temperature}
        self.traits = Traits(endpoint=base_url, max_tokens=spec.max_tokens or MAX_TOKENS,
                             parameters={**own, **spec.parameters},
                             native_tools=spec.tools == "native", tariff=None if spec.price is None else Flat.of(spec.price))
        self._said = f"{spec.name} at {base_url}, silent for {spec.timeout} s, {'with' if key else 'without'} a key, " \
                     f"tools {spec.tools}, takes {' and '.join(spec.accepts)}"

    async def ask(self, request: ModelRequest) -> Reply:
        return Reply(text=self._said, tokens_in=1000, tokens_out=100, tokens_cached=10)
