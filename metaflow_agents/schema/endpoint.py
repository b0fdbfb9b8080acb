"""A model behind an endpoint, as a person writes it, and what it has to keep to besides the types of its keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, Tag

from metaflow_agents.schema.model import Value
from metaflow_agents.schema.scalars import Accepts, Count, Seconds

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_SECRET = re.compile(
    r"(sk|pk|rk)-.*|(sk|gsk|hf|ghp|xai|r8|nvapi)_\w{16,}|AIza.*|[0-9a-f]{32,}|(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[\w+/=.-]{20,}")
_HABITS = ("/chat/completions", "/completions", "/responses", "/models", "/embeddings")
OWN: dict[str, str] = {
    "model": "`name` says it",
    "temperature": "`temperature` is a key of its own",
    "max_tokens": "`max_tokens` is a key of its own",
    "max_completion_tokens": "write `max_tokens`",
    "messages": "the prompt is built from the role and the step",
    "response_format": "the form of the answer follows from the artifact",
    "stream": "answers are streamed where the endpoint can",
    "stream_options": "answers are streamed where the endpoint can",
    "tools": "the tools are those of the role",
    "tool_choice": "a role calls its tools when it wants to",
    "functions": "the tools are those of the role",
    "function_call": "a role calls its tools when it wants to",
    "n": "a call has one answer",
}
"""Parameters of the protocol that this package sets itself, and what to do instead."""


PYTHON = "python:"
"""What the name of a model begins with that is a function."""


class Price(Value):
    """What an endpoint asks for, in US dollars for a million tokens."""

    in_: Annotated[float, Field(ge=0)] = Field(alias="in", description="for a million tokens of the request")
    out: Annotated[float, Field(ge=0)] = Field(description="for a million tokens of the answer, reasoning included")
    cached: Annotated[float, Field(ge=0)] | None = Field(
        None, description="for a million tokens of the request that the endpoint had cached; by default as `in`")


class EndpointModel(Value):
    """A model behind an endpoint that speaks the OpenAI chat-completions protocol; or a Python function with a price."""

    name: str = Field(min_length=1, description="what the endpoint calls it; or `python:FILE.py:function`, with its `price`")
    endpoint: str | None = Field(
        None, description="its base URL, `http://localhost:8000/v1`; by default OPENAI_BASE_URL, or OpenAI's own")
    key: str | None = Field(
        None, description="the environment variable that holds its key; by default OPENAI_API_KEY, unless `endpoint` is written")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(None, description="by default the endpoint's own")
    max_tokens: Count | None = Field(None, description="longest answer, in tokens; always sent; by default 8192")
    timeout: Seconds | None = Field(
        None, description="longest silence of the endpoint; by default 10m, and 0.25s for each of `max_tokens`")
    price: Price | None = Field(None, description="US dollars for a million tokens; by default as published")
    tools: Literal["native", "text"] = Field(
        "native", description="how it is told of tools and calls them: by the protocol, or in the text of prompts and answers")
    accepts: Accepts = Field(("text",), description="what it takes: `[text]`, or `[text, image]`")
    parameters: dict[str, Any] = Field(default_factory=dict, description="sent with every request as they stand: `seed`, `top_p`")

    @property
    def python(self) -> str | None:
        """The function that answers, `FILE.py:function`; None where an endpoint does."""
        return self.name.removeprefix(PYTHON) if self.name.startswith(PYTHON) and self.endpoint is None else None


def _spelling(written: object) -> str:
    return "text" if isinstance(written, str) else "mapping"


ModelSpec = Annotated[
    Annotated[str, Tag("text")] | Annotated[EndpointModel, Tag("mapping")], Discriminator(_spelling)]
"""A model as it stands under `models`: a text such as `dry`, or the mapping of one behind an endpoint."""


class EndpointLimits(Value):
    """What an endpoint allows, for all roles of all runs in the process."""

    rpm: Count | None = Field(None, description="requests in any 60 seconds")
    tpm: Count | None = Field(None, description="tokens in any 60 seconds, in and out")
    concurrency: Count | None = Field(None, description="requests under way at once")


class EndpointFault(NamedTuple):
    """One thing wrong with a model: where in it, what, and the mend. Neither ever holds what may be a key."""

    code: str
    at: tuple[str, ...]
    message: str
    mend: str


def faults(model: EndpointModel) -> Iterator[EndpointFault]:
    """All that is wrong with a model's endpoint, key and parameters; of a function, every key that only an endpoint has."""
    if model.python is not None:
        for key in sorted(model.model_fields_set - {"name", "price"}):
            yield EndpointFault(
                "model-parameter",
                (key,),
                f"`{key}` is for a model behind an endpoint, and `{model.name}` is a function",
                "remove it; a function has a `name` and a `price`",
            )
        return
    if model.endpoint is not None:
        yield from _endpoint(model.endpoint)
    if model.key is not None:
        yield from _key(model.key)
    for parameter in model.parameters:
        if parameter in OWN:
            yield EndpointFault("model-parameter", ("parameters", parameter), f"`{parameter}` is set by the engine itself",
                        f"remove it; {OWN[parameter]}")


def url_fault(url: str) -> tuple[str, str] | None:
    """What is wrong with a base URL, and the mend; None where it is fine. What may be a password is not repeated."""
    at = ("a base URL has no user name and no password: it would stand in the journal",
          "remove them; `key: NAME` names the environment variable that holds a key")
    parts = None
    try:
        parts = urlsplit(url)
        port_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_fine = False
    if parts is not None and parts.username is not None:
        return at
    if url.startswith("$"):
        return f"`{url}` is not replaced by the variable's value", "leave `endpoint` out to use OPENAI_BASE_URL"
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not port_fine or re.search(r"\s", url):
        mend = f"write `http://{url}`" if re.fullmatch(r"[\w.-]+(:\d+)?(/\S*)?", url) else "write like `http://localhost:8000/v1`"
        return f"`{url}` is no address of an endpoint", mend
    if parts.query or parts.fragment:
        return f"`{url}` holds more than a base URL", f"write `{url.partition('?')[0].partition('#')[0]}`"
    path = url.rstrip("/")
    for habit in _HABITS:
        if path.endswith(habit):
            return f"`{url}` is the address of one call; the base URL is the part before", f"write `{path.removesuffix(habit)}`"
    return None


def _endpoint(url: str) -> Iterator[EndpointFault]:
    fault = url_fault(url)
    if fault is not None:
        yield EndpointFault("model-endpoint", ("endpoint",), *fault)


def _key(key: str) -> Iterator[EndpointFault]:
    told = "`key` names the environment variable that holds the key"
    if reference := _REFERENCE.fullmatch(key):
        yield EndpointFault("model-key", ("key",), f"{told}; it is no reference to one", f"write `key: {reference[1]}`")
    elif _SECRET.fullmatch(key):
        yield EndpointFault("model-key", ("key",), f"{told}, and this looks like a key itself: keys are never written in a SOP",
                    "revoke it where it was made, put the new one into the environment, and name the variable: "
                    "`key: NAME_OF_VARIABLE`")
    elif not _VARIABLE.fullmatch(key):
        yield EndpointFault("model-key", ("key",), f"{told}, and this is no name of one",
                    "write its name, like `key: OPENROUTER_API_KEY`; a key itself is never written in a SOP")
