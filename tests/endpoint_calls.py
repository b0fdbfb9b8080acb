"""What the tests of endpoint models share: a model at an address, a request, and one call as the engine makes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from metaflow_agents.models.endpoint import Endpoint, endpoint_model
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.limits import Admission, Limiters
from metaflow_agents.models.port import ModelRequest, Reply, Traits
from metaflow_agents.schema.endpoint import EndpointModel


def model_at(url: str, *, name: str = "m", key: str | None = None, **more: Any) -> Endpoint:
    return endpoint_model(EndpointModel(name=name, endpoint=url, **more), key, None)


def sending(model: Endpoint, *, streamed: bool) -> Endpoint:
    """The model, which streams its answers, or does not as one that was found out not to."""
    model.learned.stream = streamed
    return model


def request_for(model: Any, said: str = "hi", *, schema: Mapping[str, Any] | None = None,
                watch: Callable[[str], None] | None = None, key: str = "a@1~0/turn.0") -> ModelRequest:
    return ModelRequest(key=key, role="r", step="a", messages=({"role": "user", "content": said},), model=model.name,
                        schema=schema, max_tokens=model.traits.max_tokens, parameters=model.traits.parameters, watch=watch)


async def called(model: Any, request: ModelRequest) -> Reply | CallFailed:
    """What one try gives; within what was reserved for it."""
    worst = sum(model.worst(request))
    try:
        reply: Reply = await model.ask(request)
    except CallFailed as failed:
        assert failed.charged is None or failed.charged <= worst
        return failed
    assert reply.tokens <= worst
    return reply


class Unpaced(Limiters):
    """Limits that no refusal teaches anything: for servers that refuse by chance, and never mean the rate."""

    @asynccontextmanager
    async def admitted(self, endpoint: str | None, tokens: int) -> AsyncIterator[Admission]:
        """At once."""
        yield Admission()


class Watched:
    """An endpoint model of which every answer is watched as it comes, so that it is streamed."""

    def __init__(self, model: Endpoint) -> None:
        self.model, self.pieces = model, list[str]()

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def traits(self) -> Traits:
        return self.model.traits

    def worst(self, request: ModelRequest) -> tuple[int, int]:
        return self.model.worst(self._watched(request))

    async def ask(self, request: ModelRequest) -> Reply:
        return await self.model.ask(self._watched(request))

    def _watched(self, request: ModelRequest) -> ModelRequest:
        return replace(request, watch=self.pieces.append)


def way(model: Endpoint, *, streamed: bool) -> Endpoint | Watched:
    """The model, every answer of which comes in a stream, or none does."""
    return Watched(model) if streamed else sending(model, streamed=False)
