"""The model port: one request, one reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from metaflow_agents.models.pricing import Tariff
from metaflow_agents.schema.model import as_ordered, canonical
from metaflow_agents.schema.model import digest as digest_of
from metaflow_agents.schema.pictures import usual_tokens
from metaflow_agents.schema.pictures import worst_tokens as picture_tokens

MAX_TOKENS = 8192                   # of an answer, unless the SOP says otherwise
_BYTES_PER_TOKEN = 4                # a usual estimate for English and code


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a model is besides its name.

    `endpoint`: the base URL that its limits hold for; None where it needs none. `max_tokens` bounds an answer.
    `parameters` go with every request (`temperature`). `tariff`: what it costs; None where nobody knows; `embedding`: what it
    costs to embed, where that alone is known. `native_tools`: it takes tools and gives tool calls itself; who does not is
    asked in the text form (`models/text_form.py`). `images`: it takes pictures; who does not is shown what the text says of them.
    `code`: the files that it is made of, each with a digest, where these decide
    what it answers: `--from` asks again where one of them is another.
    """

    endpoint: str | None = None
    max_tokens: int = MAX_TOKENS
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tariff: Tariff | None = None
    embedding: Tariff | None = None
    native_tools: bool = True
    images: bool = True
    code: Mapping[str, str] = field(default_factory=dict)

    def costs(self, *, embeds: bool = False) -> Tariff | None:
        """What an answer costs, or with `embeds` the embedding of texts; None where nobody knows."""
        return self.embedding if embeds and self.tariff is None else self.tariff

    def unpriced(self, *, embeds: bool = False) -> bool:
        """Whether it costs money, for all that is known, and nobody knows how much: there is an endpoint and no tariff."""
        return self.endpoint is not None and self.costs(embeds=embeds) is None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool that a model asks for.

    `id` tells it from the other calls of its conversation. `name` is as the request spelt it; one that was not offered is
    as the model wrote it, and "" where it wrote none. `arguments`: a JSON object, or where what came is none, its text.
    `extra`: what the endpoint wants back with the call, as it stands (a signature of hidden reasoning).
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str
    extra: Mapping[str, Any] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """As JSON: in messages, in the journal and in recordings."""
        given = self.arguments
        extra = {"extra": dict(self.extra)} if self.extra else {}
        return {"id": self.id, "name": self.name, "arguments": given if isinstance(given, str) else dict(given), **extra}

    def answered(self, content: str) -> dict[str, Any]:
        """The message that tells the call's result."""
        return {"role": "tool", "id": self.id, "name": self.name, "content": content}


@dataclass(frozen=True, kw_only=True)       # no slots: what is computed of a request is kept in it
class ModelRequest:
    """What one model call sends. It is not changed once it is made, its messages and schema neither.

    `key` is the call's identity in the journal (`write@1~0/turn.0`), `role` and `step` who asks for what.
    `messages`: chat messages, each `{"role": "system" | "user" | "assistant", "content": text}`; one of the assistant that
    calls tools has `"calls": [{"id", "name", "arguments"}]` too, and each result is `{"role": "tool", "id", "name", "content"}`.
    One of the user may have `images` (`schema/pictures.py`), whose bytes `blob` gives by their digest.
    `tools` that it may call, each `{"name", "description", "parameters": JSON Schema of the arguments}`.
    `schema`: the JSON Schema that the answer must fit, or None for text and files. `patterns`: the path patterns to which
    the files asked for are confined; empty where no files are asked for. `max_tokens` bounds the answer, `parameters` are
    the model's. `embeds`: no answer is asked for, but the embedding of each text; each is a message of the user, and the
    reply's `value` is what `embedded` makes (`models/vectors.py`). `payer`: whose budget it counts against, where that is another
    role's (one that was started by another one); `watch`, which is no part of what is asked, is given each piece of text as it
    comes, where somebody looks. `one_call`: of `tools` one is called at a time, which an endpoint is
    told; it is no part of what is asked either.
    """

    key: str
    role: str
    step: str
    messages: tuple[Mapping[str, Any], ...]
    model: str
    schema: Mapping[str, Any] | None = None
    patterns: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    max_tokens: int = MAX_TOKENS
    parameters: Mapping[str, Any] = field(default_factory=dict)
    embeds: bool = False
    watch: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    blob: Callable[[str], bytes] | None = field(default=None, compare=False, repr=False)
    payer: str = field(default="", compare=False)
    one_call: bool = field(default=False, compare=False)

    @cached_property
    def _asked(self) -> tuple[bytes, bytes, bytes]:
        """Messages, schema and tools in canonical JSON, each written once: they are most of a request."""
        return (canonical([dict(message) for message in self.messages]),
                b"null" if self.schema is None else canonical(dict(self.schema)),
                canonical([dict(tool) for tool in self.tools]) if self.tools else b"[]")

    @cached_property
    def _sent(self) -> bytes:
        return b'{%b"messages":%b,"schema":%b,"tools":%b}' % (b'"embeds":true,' if self.embeds else b"", *self._asked)

    @property
    def texts(self) -> tuple[str, ...]:
        """What is to be embedded."""
        return tuple(message["content"] for message in self.messages)

    @cached_property
    def digest(self) -> str:
        """Fingerprint of all that decides the answer: model, messages, parameters, schema, tools; not the key."""
        how = canonical({"model": self.model, "parameters": {**self.parameters, "max_tokens": self.max_tokens}})
        return digest_of(how + self._sent)[:32]

    @cached_property
    def prompt(self) -> str:
        """Fingerprint of what is asked, whoever is asked: messages, schema, tools. A recording is matched by it."""
        return digest_of(self._sent)[:32]

    @property
    def images(self) -> tuple[Mapping[str, Any], ...]:
        """The pictures in all messages."""
        return tuple(image for message in self.messages for image in message.get("images", ()))

    @property
    def worst_tokens(self) -> int:
        """No call costs more: a token is at least one byte, a picture has so many patches, and the answer is bounded."""
        return len(self._sent) + sum(map(picture_tokens, self.images)) + self.max_tokens

    def stored(self) -> bytes:
        """Canonical JSON, as the journal keeps it."""
        messages, schema, tools = self._asked
        first = canonical({**({"embeds": True} if self.embeds else {}), "key": self.key, "max_tokens": self.max_tokens})[1:-1]
        then = canonical({"model": self.model, **({"parameters": dict(self.parameters)} if self.parameters else {}),
                          "role": self.role})[1:-1]
        last = canonical({"step": self.step})[1:-1]
        return b'{%b,"messages":%b,%b,"schema":%b,%b,"tools":%b}' % (first, messages, then, schema, last, tools)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: text, or a JSON value in `value` where the model gives typed answers; and what it cost.

    One with `calls` asks for tools: it has a text, which may be empty, and no value. Its last call is the one that was cut
    where it is `cut`, and then `arguments` is the text that came.
    A `python:` function may leave both counts at 0: they are then estimated. `tokens_cached` are those of `tokens_in` that
    the endpoint had cached; `estimated`: it told no counts. `cut`: the answer ended at its longest length, not of itself.
    """

    text: str | None = None
    value: Any = None
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    estimated: bool = False
    cut: bool = False
    calls: tuple[ToolCall, ...] = ()

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Reply:
        """A reply from the JSON of a journal or a recording. Raises TypeError for what is none."""
        if "calls" not in told:
            return cls(**told)
        return cls(**{**told, "calls": tuple(ToolCall(**call) for call in told["calls"])})

    @property
    def message(self) -> dict[str, Any]:
        """The reply as a message of the conversation that goes on from it."""
        calls = {"calls": [call.told() for call in self.calls]} if self.calls else {}
        return {"role": "assistant", "content": self.said, **calls}

    @property
    def said(self) -> str:
        """The answer as text: a typed one as JSON, in the order that it came in."""
        return self.text if self.text is not None else as_ordered(self.value).decode()

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.tokens_in + self.tokens_out


@runtime_checkable
class Model(Protocol):
    """Whoever answers a request."""

    @property
    def name(self) -> str:
        """As the SOP, `--model` and the journal spell it."""
        ...

    async def ask(self, request: ModelRequest) -> Reply:
        """Answer. Where there is none: raises CallFailed for a fault of the wire, RunError otherwise (or what the function of
        a `python:` model raises).
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """What the models of installed packages are made with.

    `variable(NAME)` is an environment variable, None where it is not set: keys come from there alone. `folders` are the SOP's,
    its own first, where files that a model's name speaks of are looked for.
    """

    variable: Callable[[str], str | None]
    folders: Sequence[Path] = ()


MakeModel = Callable[[str, ModelSetting], "Model | Callable[[ModelRequest], Any]"]
"""What an entry point of the group `models` names. `acme = "acme.models:make"` makes the model of `acme:NAME` by
`make("NAME", setting)`, once for a run: a `Model`, or a function that answers as that of a `python:` model does. Nothing is asked
yet. What it raises refuses the run; UsageError and ModelMissing say why in words of their own.
"""


def answering(model: Model, request: ModelRequest) -> Model:
    """Who really answers a request: a model that stands before others says which (`chosen(request)`); else itself."""
    chosen: Callable[[ModelRequest], Model] | None = getattr(model, "chosen", None)
    return model if chosen is None else chosen(request)


def identity(model: Model) -> str:
    """A model's name, with its parameters where it has some: what decides whether an earlier result is as good as a new one."""
    its = traits(model)
    how = {**its.parameters, **({"max_tokens": its.max_tokens} if its.max_tokens != MAX_TOKENS else {})}
    return f"{model.name} {canonical(how).decode()}" if how else model.name


def tokens_of(size: int) -> int:
    """About how many tokens so many bytes are."""
    return -(-size // _BYTES_PER_TOKEN)


def estimated(request: ModelRequest, reply: Reply) -> Reply:
    """A reply with its tokens estimated as bytes / 4, and pictures by their pixels, of a model that counts none."""
    sent, said = len(request._sent), 0 if request.embeds else len(reply.said.encode())
    said += len(canonical(reply.message["calls"])) if reply.calls else 0
    pictured = sum(map(usual_tokens, request.images))
    return replace(reply, tokens_in=tokens_of(sent) + pictured, tokens_out=tokens_of(said))


def traits(model: Model) -> Traits:
    """A model's traits; those of one that tells none are the plain ones."""
    found: Traits = getattr(model, "traits", Traits())
    return found


def worst_tokens(model: Model, request: ModelRequest) -> tuple[int, int]:
    """Tokens in and out that a call can cost at most: what the model itself says (`worst(request)`), or the request's bytes."""
    told: Callable[[ModelRequest], tuple[int, int]] | None = getattr(model, "worst", None)
    return (request.worst_tokens - request.max_tokens, request.max_tokens) if told is None else told(request)
