"""One model call: answered from the journal, or reserved, asked and settled, try by try (journal rules 1, 2 and 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from time import time
from typing import Protocol

from metaflow_agents.errors import AttemptFailed, EndpointRefused, MetaflowError, PromptChanged, failure_of, raised
from metaflow_agents.journal.bus import Bus
from metaflow_agents.journal.records import Call
from metaflow_agents.models.budget import Budgets
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.inner_budget import Held, InnerBudgets
from metaflow_agents.models.limits import Admission, Limiters
from metaflow_agents.models.port import Model, ModelRequest, Reply, ToolCall, answering, traits, worst_tokens
from metaflow_agents.models.pricing import Tariff
from metaflow_agents.models.retry_policy import Patience
from metaflow_agents.models.text_form import called, forms, in_text, without_images
from metaflow_agents.models.vectors import fault_of
from metaflow_agents.schema.event import Reserved, Settled, Trouble
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.model import as_ordered, digest
from metaflow_agents.threads.stopwatch import under_way, waits

Watch = Callable[[str, str], None]      # a call's key, and the piece of text that just came


class SentCall(Protocol):
    """Around a call: what it comes back from may wait, where the run is about to stop."""

    def __call__(self, *, paid: bool) -> AbstractAsyncContextManager[None]:
        """From before it is sent until its answer is journalled. `paid`: somebody charges for it."""
        ...


def _at_once(*, paid: bool) -> AbstractAsyncContextManager[None]:
    return nullcontext()


class Caller:
    """Asks models on behalf of activations. `reask` pays again for a recorded call whose prompt changed since.

    `prefix`: with what the keys begin by which others know its calls, where its activations are those of a sub-SOP. `sent` is
    told of each call that goes out.
    """

    def __init__(self, bus: Bus, budgets: Budgets | InnerBudgets, limiters: Limiters | None = None, *,
                 patience: Patience | None = None, reask: bool = False, watch: Watch | None = None, prefix: str = "",
                 sent: SentCall = _at_once) -> None:
        self._prefix, self._sent = prefix, sent
        self._bus, self._journal, self._budgets, self._reask = bus, bus.journal, budgets, reask
        self._limiters, self._patience, self._watch = limiters or Limiters(), patience or Patience(), watch

    @property
    def bus(self) -> Bus:
        """Where calls are journalled; what roles say to each other around them goes the same way."""
        return self._bus

    async def ask(self, model: Model, request: ModelRequest) -> Reply:
        """The reply. Raises AttemptFailed where the model gave none, EndpointRefused, PromptChanged, BudgetExceeded."""
        activation = parse_activation(request.key)
        recorded = self._journal.state.active[activation.firing].slot(activation.item).calls.get(request.key)
        reply = self._recorded(recorded, request)
        if reply is not None:
            return reply
        model = answering(model, self._whole(request))
        if self._watch is not None:
            watch, key = self._watch, self._prefix + request.key
            request = replace(request, watch=lambda text: watch(key, text))
        first = 0 if recorded is None else recorded.try_ + 1
        for failed in range(self._patience.tries):
            answer = await self._tried(model, request, first, failed)
            if isinstance(answer, Reply):
                return answer
            seconds, busy = answer
            with waits() if busy else nullcontext():
                await self._patience.sleep(seconds)
        raise RuntimeError("the last try ends with a reply or an error")

    def _whole(self, request: ModelRequest) -> ModelRequest:
        return replace(request, key=self._prefix + request.key) if self._prefix else request

    def _recorded(self, recorded: Call | None, request: ModelRequest) -> Reply | None:
        """What the journal has for this call, if it has it."""
        if recorded is None:
            return None
        same = any(recorded.digest == form.digest for form in forms(request))       # whoever answered took it in one of them
        if recorded.reply is not None:
            if same:
                return Reply.read(json.loads(self._journal.blob(recorded.reply)))
            if not self._reask:
                raise PromptChanged(f"{request.key}: this prompt changed since it was answered; "
                                    "`--retry-changed-prompts` asks (and pays) again")
        if recorded.failure is not None and same:
            raise AttemptFailed(recorded.failure)       # the run died before it could say that the attempt failed
        return None

    async def _tried(self, model: Model, request: ModelRequest, first: int, failed: int) -> Reply | tuple[float, bool]:
        """One try over the wire: a reply, or the seconds after which another try may help, and whether the endpoint takes no more
        for the moment. `first` is the number of this
        sitting's first try, `failed` how many of its tries failed.
        """
        its = traits(model)
        sent = request if its.images else without_images(request)
        sent = sent if its.native_tools else in_text(sent)
        sent = replace(sent, blob=self._journal.blob) if sent.images else sent
        tokens_in, tokens_out = worst_tokens(model, sent)
        worst = tokens_in + tokens_out
        tariff = its.costs(embeds=request.embeds)
        cost = 0 if tariff is None else tariff.worst(tokens_in, tokens_out)
        sent = self._whole(sent)
        stored = sent.stored()
        name = digest(stored)
        payer = request.payer or request.role
        async with AsyncExitStack() as way:
            with waits():
                reservation = await way.enter_async_context(self._budgets.reserve(payer, request.step, worst, cost=cost))
                try:
                    admission = await way.enter_async_context(self._limiters.admitted(its.endpoint, worst))
                except BaseException:
                    reservation.settle(0, calls=0)          # it never went out
                    raise
            await way.enter_async_context(self._sent(paid=its.endpoint is not None))
            await self._bus.publish(
                Reserved(at=time(), key=request.key, role=payer, try_=first + failed, digest=sent.digest, request=name,
                         model=model.name, tokens=worst, cost=cost, unpriced=its.unpriced(embeds=request.embeds)),
                blobs={name: stored})
            one = _Try(self, model, tariff, request, first + failed, worst, cost, reservation, admission)
            try:
                with under_way():
                    reply = await model.ask(sent)
                if not its.native_tools and isinstance(reply, Reply):
                    reply = called(reply, request)
            except CallFailed as failure:
                if failure.after is not None and failure.after > self._patience.asked:
                    failure = CallFailed(f"{failure.told}; that is longer than a run waits: `sop resume` later", then="stop",
                                         charged=failure.charged, refused=failure.refused, busy=failure.busy)
                return await one.failed(failure, failed), failure.busy
            except MetaflowError as error:
                await one.lost(str(error))
                raise
            except Exception as error:          # the function of a `python:` model is the user's: whatever it raises is told
                told = f"the model {model.name} raised {raised(error)}"
                await one.lost(told, paid=its.endpoint is not None)
                raise AttemptFailed(told) from error
            return await one.settled(reply)         # which tells by itself what is wrong with a reply


@dataclass(frozen=True, slots=True)
class _Then:
    """What follows a failed try: another one, `wait` seconds later, or the end of the run; and what kind of trouble it was."""

    again: bool = False
    stops: bool = False
    trouble: Trouble = "failed"
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class _Try:
    """One try, reserved: how it ends is journalled, and what it held is released."""

    caller: Caller
    model: Model
    tariff: Tariff | None
    request: ModelRequest
    number: int
    worst: int
    worst_cost: int
    reservation: Held
    admission: Admission

    async def settled(self, reply: Reply) -> Reply:
        """The reply, in the journal. Raises AttemptFailed for one that is not what the port says."""
        try:
            stored = _stored(self.model, reply, self.request)
        except Exception as error:
            failure = failure_of(error)
            await self.lost(str(failure))
            raise failure from error
        # An endpoint that does not keep to `max_tokens` is paid for its answer, which is whole: it is used, and charged as told.
        if reply.tokens > self.worst and traits(self.model).endpoint is None:
            told = f"the model {self.model.name} gave {reply.tokens} tokens, more than the {self.worst} that were reserved"
            await self._end(told, tokens=self.worst, cost=self.worst_cost)
            raise AttemptFailed(told)
        tariff = self.tariff
        cost = 0 if tariff is None else tariff.cost(reply.tokens_in, reply.tokens_out, reply.tokens_cached)
        self._release(reply.tokens, 1, cost)
        name = digest(stored)
        # Not waited for: it is written at once, and before all that is made of the reply, which most often goes with it.
        # A kill until it is durable finds the call in flight, and so would one while this waited.
        self.caller._bus.post(
            Settled(at=time(), key=self.request.key, try_=self.number, reply=name, tokens_in=reply.tokens_in,
                    tokens_out=reply.tokens_out, tokens_cached=reply.tokens_cached, cost=cost, estimated=reply.estimated),
            blobs={name: stored})
        return reply

    async def failed(self, failure: CallFailed, before: int) -> float:
        """Seconds until the next try, where one follows; `before`: how many failed before it in this sitting. Raises
        AttemptFailed or EndpointRefused where none does.
        """
        tokens = self.worst if failure.charged is None else failure.charged
        cost = self._dearest(tokens)
        patience = self.caller._patience
        again = failure.then == "again" and before + 1 < patience.tries
        wait = patience.pause(before, failure.after) if again else 0.0
        if failure.busy:
            self.admission.refused(failure.after)
        await self._end(failure.told, tokens=tokens, cost=cost, calls=0 if failure.refused else 1,
                        estimated=failure.charged is None or cost > 0,
                        then=_Then(again, failure.then == "stop", failure.trouble, wait))
        if again:
            return wait
        if failure.then == "stop":
            raise EndpointRefused(failure.told)
        tried = f" (after {self.number + 1} tries)" if self.number else ""
        raise AttemptFailed(f"{failure.told}{tried}")

    def _dearest(self, tokens: int) -> int:
        """The most that so many tokens cost: of a failed try nobody tells how many were in and how many out."""
        if self.tariff is None or not tokens:
            return 0
        return min(self.worst_cost, self.tariff.worst(tokens, 0 if self.request.embeds else tokens))

    async def lost(self, told: str, *, paid: bool = False) -> None:
        """The attempt failed, and it cost nothing, since the model is none that is paid for; else the worst case."""
        await self._end(told, tokens=self.worst if paid else 0, cost=self.worst_cost if paid else 0, estimated=paid)

    async def _end(self, told: str, *, tokens: int, cost: int, calls: int = 1, estimated: bool = False,
                   then: _Then | None = None) -> None:
        then = then or _Then()
        self._release(tokens, calls, cost)
        await self.caller._bus.publish(
            Settled(key=self.request.key, try_=self.number, error=told, tokens_in=tokens, cost=cost, calls=calls,
                    again=then.again, stops=then.stops, estimated=estimated, trouble=then.trouble, wait=round(then.wait, 3)))

    def _release(self, tokens: int, calls: int, cost: int) -> None:
        self.reservation.settle(tokens, calls, cost)
        self.admission.settle(tokens)


def _stored(model: Model, reply: Reply, request: ModelRequest) -> bytes:
    """A reply as the journal keeps it. Raises AttemptFailed for one that is not what the port says."""
    if not isinstance(reply, Reply):
        raise AttemptFailed(f"the model {model.name} gave {type(reply).__name__}, and no Reply")
    counts = {"tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out, "tokens_cached": reply.tokens_cached}
    if not isinstance(reply.text, str | None) or not all(type(count) is int and count >= 0 for count in counts.values()):
        raise AttemptFailed(f"the model {model.name} gave a Reply whose `text` is no text, or whose tokens are no counts")
    if request.embeds and (fault := fault_of(reply.value, len(request.messages))):
        raise AttemptFailed(f"the model {model.name} {fault}")
    if reply.calls and (fault := _fault_of_calls(reply, request)):
        raise AttemptFailed(f"the model {model.name} {fault}")
    told = {name: value for name, value in (("tokens_cached", reply.tokens_cached), ("estimated", reply.estimated),
                                            ("cut", reply.cut)) if value}
    try:
        calls = {"calls": [call.told() for call in reply.calls]} if reply.calls else {}
        return as_ordered({"text": reply.text, "value": reply.value, "tokens_in": reply.tokens_in,
                           "tokens_out": reply.tokens_out, **told, **calls})
    except (TypeError, ValueError, RecursionError) as error:
        raise AttemptFailed(f"the model {model.name} gave what is not JSON: {error}") from error


def _fault_of_calls(reply: Reply, request: ModelRequest) -> str:
    """What is wrong with the calls of a reply; "" where nothing is."""
    if not request.tools:
        return "called a tool, and it was offered none"
    if reply.text is None or reply.value is not None:
        return "gave tool calls beside a value: a reply with calls has a text, which may be empty, and no value"
    if not all(isinstance(call, ToolCall) and isinstance(call.id, str) and isinstance(call.name, str)
               and isinstance(call.arguments, Mapping | str) for call in reply.calls):
        return "gave tool calls that are no ToolCall(id, name, arguments)"
    ids = [call.id for call in reply.calls]
    if all(ids) and len(set(ids)) == len(ids):
        return ""
    return f"gave tool calls whose ids do not tell them apart: {', '.join(map(repr, ids))}"
