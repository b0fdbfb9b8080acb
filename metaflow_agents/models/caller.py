"""One model call: answered from the journal, or reserved, asked and settled (journal rules 1, 2 and 4)."""

from __future__ import annotations

import json

from metaflow_agents.bus import Bus
from metaflow_agents.errors import AttemptFailed, MetaflowError, PromptChanged, raised
from metaflow_agents.journal.journal import Journal
from metaflow_agents.models.budget import Budgets, Reservation
from metaflow_agents.models.port import Model, ModelRequest, Reply
from metaflow_agents.schema.event import Reserved, Settled
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.model import canonical, digest


class Caller:
    """Asks models on behalf of activations. `reask` pays again for a recorded call whose prompt changed since."""

    def __init__(self, bus: Bus, journal: Journal, budgets: Budgets, *, reask: bool = False) -> None:
        self._bus, self._journal, self._budgets, self._reask = bus, journal, budgets, reask

    async def ask(self, model: Model, request: ModelRequest) -> Reply:
        """The reply. Raises AttemptFailed where the model gave none, PromptChanged, BudgetExceeded."""
        activation = parse_activation(request.key)
        recorded = self._journal.state.active[activation.firing].slot(activation.item).calls.get(request.key)
        if recorded is not None and recorded.reply is not None:
            if recorded.digest == request.digest:
                return Reply(**json.loads(self._journal.blob(recorded.reply)))
            if not self._reask:
                raise PromptChanged(f"{request.key}: this prompt changed since it was answered; `--reask` asks (and pays) again")
        if recorded is not None and recorded.failure is not None and recorded.digest == request.digest:
            raise AttemptFailed(recorded.failure)       # the run died before it could say that the attempt failed
        try_ = 0 if recorded is None else recorded.try_ + 1
        stored = request.stored()
        name = digest(stored)
        async with self._budgets.reserve(request.role, request.step, request.worst_tokens) as reservation:
            await self._bus.publish(
                Reserved(key=request.key, role=request.role, try_=try_, digest=request.digest, request=name,
                         model=model.name, tokens=request.worst_tokens), blobs={name: stored})
            reply = await self._answer(model, request, try_, reservation)
        return reply

    async def _answer(self, model: Model, request: ModelRequest, try_: int, reservation: Reservation) -> Reply:
        async def failed(told: str, tokens: int = 0) -> None:
            reservation.settle(tokens)
            await self._bus.publish(Settled(key=request.key, try_=try_, error=told, tokens_in=tokens))

        try:
            reply = await model.ask(request)
            stored = _stored(model, reply)
        except MetaflowError as error:
            await failed(str(error))
            raise
        except Exception as error:          # the function of a `python:` model is the user's: whatever it raises is told
            told = f"the model {model.name} raised {raised(error)}"
            await failed(told)
            raise AttemptFailed(told) from error
        if reply.tokens > request.worst_tokens:
            told = f"the model {model.name} gave {reply.tokens} tokens, more than the {request.worst_tokens} that were reserved"
            await failed(told, request.worst_tokens)
            raise AttemptFailed(told)
        reservation.settle(reply.tokens)
        name = digest(stored)
        # Not waited for: it is written at once, and before all that is made of the reply, which most often goes with it.
        # A kill until it is durable finds the call in flight, and so would one while this waited.
        self._bus.post(Settled(key=request.key, try_=try_, reply=name, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out),
                       blobs={name: stored})
        return reply


def _stored(model: Model, reply: Reply) -> bytes:
    """A reply as the journal keeps it. Raises AttemptFailed for one that is not what the port says."""
    counts = (reply.tokens_in, reply.tokens_out)
    if not isinstance(reply.text, str | None) or not all(type(count) is int and count >= 0 for count in counts):
        raise AttemptFailed(f"the model {model.name} gave a Reply whose `text` is no text, or whose tokens are no counts")
    try:
        return canonical({"text": reply.text, "value": reply.value, "tokens_in": counts[0], "tokens_out": counts[1]})
    except (TypeError, ValueError, RecursionError) as error:
        raise AttemptFailed(f"the model {model.name} gave what is not JSON: {error}") from error
