"""`python:module:function` and `python:FILE.py:function`: a Python function that answers in a model's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from metaflow_agents.errors import AttemptFailed
from metaflow_agents.errors.encodable import words_of
from metaflow_agents.models.calls import arguments_of, numbered
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall, Traits, estimated
from metaflow_agents.models.pricing import Tariff
from metaflow_agents.models.vectors import embedded
from metaflow_agents.schema.model import canonical
from metaflow_agents.threads.blocking import Threads, called

THREADS = 64


class PythonModel:
    """A function as a model.

    It is given the `ModelRequest` and returns text, a value of the schema (dict, list, number or boolean, or a
    pydantic model), tool calls, or a `Reply`. Tool calls are a `ToolCall`, a list of them and of texts, or, where the request
    has tools, `{"calls": [{"name": …, "arguments": {…}}], "text": …}`; an id that is left empty is made. Where the request
    `embeds` it returns a list of numbers for each of its `texts`. A function that is not async runs in a thread, 64 at once; when
    its call is cancelled the await ends after the thread has. Tokens are estimated as bytes / 4 unless a `Reply` tells them; by
    them its calls have their price, where there is a `tariff`.
    """

    def __init__(self, name: str, function: Callable[[ModelRequest], Any],
                 code: Callable[[], Mapping[str, str]] = dict, tariff: Tariff | None = None) -> None:
        self._name, self._function, self._code, self._tariff = name, function, code, tariff
        self._threads = Threads(THREADS, "python-model")

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @cached_property
    def traits(self) -> Traits:
        """Its code, as it was when it was first asked for; nothing of a function that a program hands in."""
        return Traits(code=self._code(), tariff=self._tariff)

    async def ask(self, request: ModelRequest) -> Reply:
        """The function's answer. What the function raises goes on; AttemptFailed for an answer of another type."""
        reply = self._reply(await called(f"the model {self._name}", self._threads, self._function, request), request)
        return reply if reply.tokens else estimated(request, reply)

    def _reply(self, answer: Any, request: ModelRequest) -> Reply:
        if request.embeds and not isinstance(answer, Reply):
            try:
                return Reply(value=embedded(answer))
            except ValueError as error:
                told = f"the model `{self._name}` was asked to embed {len(request.messages)} texts: {error}"
                raise AttemptFailed(f"{told}; return a list of numbers for each of `request.texts` where `request.embeds`, or "
                                    "give the embedder its own model: `--model NAME=…`") from error
        if isinstance(answer, Reply):
            if answer.text is None and answer.value is None:
                raise AttemptFailed(f"the model `{self._name}` returned a Reply with neither text nor value")
            return replace(answer, calls=numbered(answer.calls, request.messages)) if answer.calls else answer
        calling = _calling(answer, request)
        if calling is not None:
            return self._calls(*calling, request)
        if isinstance(answer, str):
            return Reply(text=answer)
        if isinstance(answer, BaseModel):
            return Reply(value=answer.model_dump(mode="json"))
        if isinstance(answer, dict | list | tuple | int | float):
            try:
                canonical(answer)
            except (TypeError, ValueError, RecursionError) as error:
                raise AttemptFailed(f"the model `{self._name}` returned what is not JSON: {words_of(error, 500)}") from error
            return Reply(value=answer)
        raise AttemptFailed(f"the model `{self._name}` returned {type(answer).__name__}: return text, a JSON value, "
                       "a pydantic model, tool calls, or a Reply")

    def _calls(self, text: str, calls: Sequence[Any], request: ModelRequest) -> Reply:
        """The reply that calls tools. Raises AttemptFailed for what is no call."""
        found: list[ToolCall] = []
        for call in calls:
            if isinstance(call, Mapping) and isinstance(call.get("name"), str) and set(call) <= {"id", "name", "arguments"}:
                call = ToolCall(call.get("id", ""), call["name"], call.get("arguments", {}))
            if not isinstance(call, ToolCall) or not isinstance(call.id, str) or not isinstance(call.arguments, Mapping | str):
                raise AttemptFailed(f"the model `{self._name}` returned a call that is none: {call!r:.200}; write ToolCall(id, "
                                    'name, arguments), or {"name": …, "arguments": {…}}')
            found.append(replace(call, arguments=arguments_of(call.arguments) if call.arguments != "" else ""))
        return Reply(text=text, calls=numbered(found, request.messages))


def _calling(answer: Any, request: ModelRequest) -> tuple[str, Sequence[Any]] | None:
    """The text and the calls of an answer that calls tools; None for one that does not.

    A mapping does so only where tools were offered, and where the schema asks for no `calls` itself.
    """
    if isinstance(answer, ToolCall):
        return "", [answer]
    if isinstance(answer, list | tuple) and any(isinstance(part, ToolCall) for part in answer):
        texts = [part for part in answer if isinstance(part, str)]
        return "\n\n".join(texts), [part for part in answer if not isinstance(part, str)]
    asked = (request.schema or {}).get("properties", {})
    if isinstance(answer, dict) and request.tools and "calls" not in asked and isinstance(answer.get("calls"), list) \
            and set(answer) <= {"calls", "text"} and answer["calls"]:
        return str(answer.get("text") or ""), answer["calls"]
    return None
