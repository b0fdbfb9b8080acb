"""The bytes of a request. Made once, by hand: a client's walk over typed dictionaries costs more than the call itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.models.endpoint.learned import Form, Learned
from metaflow_agents.models.endpoint.tools import names_in, offered, spoken, wire_names
from metaflow_agents.models.port import ModelRequest
from metaflow_agents.models.schema_in_words import asks_for_text, in_words
from metaflow_agents.models.structured import rooted, strict_form
from metaflow_agents.schema.model import fingerprint

# What decides the cost of a call or the form of its answer: not to be set past the keys of the language.
OURS = frozenset({"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "response_format", "n",
                  "tools", "tool_choice", "functions", "function_call"})
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_REMEMBERED = 256                   # schemas whose forms are kept


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """One request as it goes out. `form`: how its answer's form is asked for, `schema` its fingerprint; both for structured
    answers only. `length`: the parameter that bounds the answer. `names` of the tools on the wire, with those in the messages;
    `offered`: it offers tools, and `parallel`: it says that several may be called at once. `asks`: what for, in words.
    """

    body: bytes
    length: str
    streamed: bool
    usage: bool
    form: Form | None = None
    schema: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    offered: bool = False
    parallel: bool = False
    asks: str = "chat completions"


@dataclass(frozen=True, slots=True)
class _Forms:
    """The ways to ask for one schema, as JSON texts; None where it can't be asked for so."""

    schema: Mapping[str, Any]       # held, so that its id stays its own
    fingerprint: str
    best: Form
    texts: Mapping[Form, str | None]


class Bodies:
    """Builds the requests of one model."""

    def __init__(self, name: str, *, shows_form: bool) -> None:
        """`shows_form`: the endpoint shows its model the schema that it is asked for."""
        self._name, self._shows_form = _encode(name), shows_form
        self._forms: dict[int, _Forms] = {}

    def prepared(self, request: ModelRequest, learned: Learned) -> PreparedRequest:
        """The request as it would go out now."""
        form: Form | None = None
        forms = None
        messages: Sequence[Mapping[str, Any]] = request.messages
        if request.schema is not None and not asks_for_text(request.schema):
            forms = self._of(request.schema)
            alone = bool(request.tools) and not learned.tools_with_form
            form = "none" if alone else learned.form_for(forms.fingerprint, forms.best)
            bound = form in ("strict", "schema")        # what is no object at the top is asked for in one
            if not (self._shows_form and bound):
                messages = in_words(messages, rooted(request.schema) if bound else request.schema)
        names = wire_names(names_in(request))
        parts = [f'{{"model":{self._name},"messages":{_encode(spoken(messages, names, request.blob))}']
        parallel = bool(request.tools) and learned.parallel_calls and "parallel_tool_calls" not in request.parameters
        if request.tools:
            parts.append(f'"tools":{_encode(offered(request.tools, names))}')
            if parallel:
                parts.append(f'"parallel_tool_calls":{"false" if request.one_call else "true"}')
        if forms is not None and form is not None and (text := forms.texts[form]) is not None:
            parts.append(f'"response_format":{text}')
        parts.append(f'"{learned.length}":{request.max_tokens}')
        streamed = learned.streams(tools=bool(request.tools))
        if streamed:
            parts.append('"stream":true')
            if learned.usage:
                parts.append('"stream_options":{"include_usage":true}')
        if request.parameters:
            parts.append(_encode(dict(request.parameters))[1:-1])
        body = (",".join(parts) + "}").encode()
        return PreparedRequest(
            body,
            learned.length,
            streamed,
            learned.usage,
            form,
            "" if forms is None else forms.fingerprint,
            names,
            bool(request.tools),
            parallel,
        )

    def _of(self, schema: Mapping[str, Any]) -> _Forms:
        known = self._forms.get(id(schema))
        if known is not None and known.schema is schema:
            return known
        if len(self._forms) >= _REMEMBERED:
            self._forms.clear()
        strict, plain = strict_form(schema), rooted(schema)
        # JSON mode makes objects only: what is none at the top can but be asked for in words.
        in_json = _encode({"type": "json_object"}) if schema.get("type") == "object" else None
        made = _Forms(schema, fingerprint(schema), "schema" if strict is None else "strict", {
            "strict": None if strict is None else _format({"name": "answer", "strict": True, "schema": strict}),
            "schema": _format({"name": "answer", "schema": plain}), "json": in_json, "none": None})
        self._forms[id(schema)] = made
        return made


def _format(asked: Mapping[str, Any]) -> str:
    return _encode({"type": "json_schema", "json_schema": asked})
