"""Embedders are models: they are asked like any other, under keys of the activation that recalls, and its role pays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain

from metaflow_agents.engine.work import Activation
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.memory.embeddings import Embedder
from metaflow_agents.models.caller import Caller
from metaflow_agents.models.port import Model, ModelRequest, identity, traits
from metaflow_agents.models.registry import Models
from metaflow_agents.models.vectors import bytes_of
from metaflow_agents.schema.keys import EMBED
from metaflow_agents.schema.model import fingerprint


class Embedding:
    """Asks embedders on behalf of activations.

    A call's key is made of the texts that it embeds: which ones these are depends on what other runs embedded by then, and a
    resume that finds others does not take them for a changed prompt.
    """

    def __init__(self, models: Models, caller: Caller, state: RunState, values: Values) -> None:
        self._models, self._caller, self._state, self._values = models, caller, state, values

    def of(self, activation: Activation, role: str, name: str) -> Embedder:
        """Who embeds for an activation: the model of a name. Raises ModelMissing."""
        model = self._models.of(name)
        its = traits(model)

        async def ask(texts: Sequence[str]) -> list[bytes]:
            request = ModelRequest(
                key=f"{activation.key}{EMBED}{fingerprint(list(texts))[:12]}", role=role, step=activation.key.step,
                messages=tuple({"role": "user", "content": text} for text in texts), model=model.name, embeds=True, max_tokens=0,
                parameters=its.parameters)
            return bytes_of((await self._caller.ask(model, request)).value)

        return Embedder(_space(model), ask, lambda: self._recorded(model))

    def _recorded(self, model: Model) -> Iterator[tuple[Sequence[str], list[bytes]]]:
        """What activations under way had embedded, after which the run may have been killed before it was kept."""
        slots = chain.from_iterable(firing.slots.values() for firing in self._state.active.values())
        for key, call in list(chain.from_iterable(slot.calls.items() for slot in slots)):
            if EMBED in key and call.reply is not None:
                asked = json.loads(self._values.text(call.request))
                if asked["model"] == model.name and asked.get("parameters", {}) == dict(traits(model).parameters):
                    yield ([message["content"] for message in asked["messages"]],
                           bytes_of(json.loads(self._values.text(call.reply))["value"]))


def _space(model: Model) -> str:
    """By what vectors are known that may be compared: the model, its parameters, and where it is."""
    endpoint = traits(model).endpoint
    return identity(model) if endpoint is None else f"{identity(model)} at {endpoint}"
