"""The schema of an answer in words, for models that are not shown it in another way.

A schema that an endpoint is given as `response_format` may bind what the model can write and no more: Ollama, vLLM and llama.cpp
make a grammar of it, which the model does not see. OpenAI's own endpoints show it to the model, and count it as its input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from metaflow_agents.prompts import from_package

_SHOWN_BY = ("api.openai.com", "openai.azure.com")      # hosts, and what lies under them


def shows_form(url: str) -> bool:
    """Whether the endpoint at this address shows its model the schema of `response_format`."""
    host = urlsplit(url).hostname or ""
    return any(host == one or host.endswith(f".{one}") for one in _SHOWN_BY)


def asks_for_text(schema: Mapping[str, Any] | None) -> bool:
    """Whether an answer is text, of which no schema need be told."""
    return schema is None or schema == {"type": "string"}


def told_schema(schema: Mapping[str, Any] | None) -> str:
    """What a model is told of it; empty for text."""
    return "" if asks_for_text(schema) else from_package("schema", {"schema": json.dumps(schema, ensure_ascii=False)})


def in_words(messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The messages with the schema at the end of the last one of the user."""
    told = told_schema(schema)
    if not told:
        return list(messages)
    at = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=None)
    if at is None:
        return [{"role": "user", "content": told}, *messages]
    last = messages[at]
    return [*messages[:at], {**last, "content": f"{str(last['content']).rstrip()}\n\n{told}"}, *messages[at + 1:]]
