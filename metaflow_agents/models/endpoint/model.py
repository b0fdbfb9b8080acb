"""A model behind an endpoint: one request out, one answer back, every fault translated."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.models.endpoint import embedding
from metaflow_agents.models.endpoint import learned as knowledge
from metaflow_agents.models.endpoint.answer import EndpointAnswer
from metaflow_agents.models.endpoint.body import OURS, Bodies, PreparedRequest
from metaflow_agents.models.endpoint.clients import Client, joined, left, using
from metaflow_agents.models.endpoint.exchange import Exchange
from metaflow_agents.models.endpoint.listing import known_models
from metaflow_agents.models.endpoint.refusals import Asker, UnknownModel
from metaflow_agents.models.endpoint.tools import taken
from metaflow_agents.models.endpoint.wording import line
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import MAX_TOKENS, ModelRequest, Reply, Traits
from metaflow_agents.models.prices import tariff_for
from metaflow_agents.models.schema_in_words import shows_form
from metaflow_agents.models.structured import as_asked
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.pictures import worst_tokens as picture_tokens

OPENAI = "https://api.openai.com/v1"
SILENCE = 600.0                         # seconds
SLOWEST = 0.25                          # seconds a token: while an answer in one piece is written, nothing is heard of it


def endpoint_model(spec: EndpointModel, key: str | None, base_url: str | None) -> Endpoint:
    """The model that a SOP describes. `key` is the secret itself, None where there is none (a local server); `base_url`
    is where it is unless `spec.endpoint` says otherwise, None for OpenAI's own.

    Raises UsageError for an address, a key or parameters that can't be sent.
    """
    url = (spec.endpoint or base_url or OPENAI).strip().rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"the endpoint `{url}` of the model `{spec.name}` is no address: write like `http://localhost:8000/v1`")
    key = (key or "").strip() or None
    if key is not None and not re.fullmatch(r"[\x21-\x7e]+", key):
        raise UsageError(f"the key in {spec.key or 'OPENAI_API_KEY'} holds spaces or characters that no key has: set it again")
    for name in spec.parameters:
        if name in OURS:
            mend = "write `max_tokens: …` beside `name`" if "tokens" in name else "leave it out: the run sets it itself"
            raise UsageError(f"`parameters.{name}` of the model `{spec.name}`: {mend}")
    return Endpoint(spec, key, url)


class Endpoint:
    """Fits `Model`. An async context manager, which keeps its connections open: whoever makes many calls enters it."""

    def __init__(self, spec: EndpointModel, key: str | None, url: str) -> None:
        self.url = url
        self._spec = spec
        self._key = key
        self._asker = Asker(spec.name, url, spec.key or "OPENAI_API_KEY", key)
        self._bodies = Bodies(spec.name, shows_form=shows_form(url))

    @property
    def name(self) -> str:
        """`openai:NAME`."""
        return f"openai:{self._asker.model}"

    @property
    def traits(self) -> Traits:
        """See `Traits`. Its price is looked up when it is first asked for: loading what is published takes a moment."""
        return self._traits if self.learned.tools == "native" else self._traits_in_text

    @cached_property
    def _traits_in_text(self) -> Traits:
        return replace(self._traits, native_tools=False)

    @cached_property
    def _traits(self) -> Traits:
        spec = self._spec
        parameters = {**({} if spec.temperature is None else {"temperature": spec.temperature}), **spec.parameters}
        priced = spec.name, self.url, spec.price, spec.parameters
        tariff = tariff_for(*priced)
        return Traits(endpoint=self.url, max_tokens=spec.max_tokens or MAX_TOKENS, parameters=parameters, tariff=tariff,
                      embedding=tariff_for(*priced, embeds=True) if tariff is None else None,
                      native_tools=spec.tools == "native", images="image" in spec.accepts)

    @property
    def learned(self) -> knowledge.Learned:
        """What the process found out about it so far."""
        return knowledge.learned(self.url, self._asker.model)

    async def __aenter__(self) -> Self:
        joined(self.url, self._key)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await left(self.url, self._key)

    def worst(self, request: ModelRequest) -> tuple[int, int]:
        """The bytes that go out, for a token is at least one of them, and the longest answer; of pictures what they may cost."""
        prepared = self._prepared(request)
        # What is computed of a request is kept in it: what goes out is what was reserved, whatever is learned in between.
        vars(request)["_prepared"] = (self, prepared)
        coded = sum(4 * -(-image["size"] // 3) for image in request.images)         # in base64
        return len(prepared.body) - coded + sum(map(picture_tokens, request.images)), request.max_tokens

    def silence(self, request: ModelRequest) -> float:
        """How long the endpoint may say nothing, in seconds: what the SOP says, or enough to write the longest answer unheard."""
        return self._spec.timeout or SILENCE + (0.0 if request.embeds else SLOWEST * request.max_tokens)

    async def ask(self, request: ModelRequest) -> Reply:
        """See `Model.ask`."""
        owner, prepared = vars(request).pop("_prepared", (None, None))
        if owner is not self or prepared is None:
            prepared = self._prepared(request)
        async with using(self.url, self._key) as client:
            try:
                if request.embeds:
                    return await self._embedded(client, request, prepared)
                exchange = Exchange(self._asker, self.silence(request), client, request, prepared, self.learned)
                answer = await exchange.answer()
            except UnknownModel as unknown:
                raise await self._with_mend(client, unknown) from None
        self.learned.answered = True
        self.learned.heard(streamed=prepared.streamed, counted=answer.usage is not None)
        return self._reply(request, prepared, answer)

    def _prepared(self, request: ModelRequest) -> PreparedRequest:
        if request.embeds:
            return embedding.prepared(self._asker.model, request)
        return self._bodies.prepared(request, self.learned)

    async def _embedded(self, client: Client, request: ModelRequest, prepared: PreparedRequest) -> Reply:
        reply = await embedding.embeddings(self._asker, self.silence(request), client, request, prepared, self.learned)
        self.learned.answered = True
        return reply

    async def _with_mend(self, client: Client, unknown: UnknownModel) -> CallFailed:
        names = await known_models(client)
        mend = did_you_mean(self._asker.model, names) if names else "its list of models can't be had"
        return CallFailed(f"{unknown.told}; {mend}", then=unknown.then, charged=unknown.charged, refused=unknown.refused)

    def _reply(self, request: ModelRequest, prepared: PreparedRequest, answer: EndpointAnswer) -> Reply:
        """The reply that an answer is. Raises CallFailed where it is none."""
        usage = answer.usage
        charged = None if usage is None else usage.tokens
        if usage is not None and usage.tokens_out > request.max_tokens and prepared.length == "max_completion_tokens":
            # A server that does not know the newer name, and says nothing. What it gave is whole, and paid for: it is taken.
            self.learned.length = "max_tokens"
        if answer.refusal and not answer.text.strip() and not answer.calls:
            raise CallFailed(f"{self.name} refused to answer: {line(answer.refusal)}", then="fail", charged=charged)
        if answer.filtered:
            raise CallFailed(f"the endpoint's content filter kept back the answer of {self.name}", then="fail", charged=charged)
        if answer.broken:
            raise CallFailed(f"{self.name} broke off its answer ({answer.finish})", then="again", charged=charged)
        calls = taken(answer.calls, request, prepared.names, cut=answer.cut) if request.tools else ()
        if not answer.text.strip() and not calls:
            raise self._nothing(request, answer, charged)
        text = answer.text if prepared.form in (None, "none") or request.schema is None or answer.cut or calls \
            else as_asked(request.schema, answer.text)
        if usage is None:
            # The worst case: hidden reasoning is billed, so that the length of what is seen bounds nothing.
            return Reply(text, tokens_in=len(prepared.body), tokens_out=request.max_tokens, estimated=True, cut=answer.cut,
                         calls=calls)
        return Reply(text, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out, tokens_cached=usage.tokens_cached,
                     cut=answer.cut, calls=calls)

    def _nothing(self, request: ModelRequest, answer: EndpointAnswer, charged: int | None) -> CallFailed:
        if answer.cut:
            why = f" ({answer.reasoned:,} characters of reasoning)" if answer.reasoned else ""
            return CallFailed(f"{self.name} used all {request.max_tokens:,} tokens up before its answer began{why}: "
                              "raise `max_tokens` of the model", then="fail", charged=charged)
        if answer.calls:
            return CallFailed(f"{self.name} called a tool instead of answering, and it was offered none", then="again",
                              charged=charged)
        return CallFailed(f"{self.name} gave an empty answer", then="again", charged=charged)
