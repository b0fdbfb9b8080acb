"""Embeddings from an endpoint: texts out, vectors back, in the order of the texts.

Source: the OpenAI reference of embeddings (`POST /embeddings`). Servers give numbers or base64, whatever they were asked for;
some leave `index` out, some tell no counts.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import struct
from typing import Any

from metaflow_agents.models.endpoint.body import PreparedRequest
from metaflow_agents.models.endpoint.broken import broken, wire_faults
from metaflow_agents.models.endpoint.clients import CONNECTING, Client
from metaflow_agents.models.endpoint.exchange import read, send
from metaflow_agents.models.endpoint.learned import Learned
from metaflow_agents.models.endpoint.refusals import Asker, Refusal, refused, told_error
from metaflow_agents.models.endpoint.usage import usage_of
from metaflow_agents.models.faults import CallFailed
from metaflow_agents.models.port import ModelRequest, Reply
from metaflow_agents.models.vectors import embedded, fault_of
from metaflow_agents.texts.strict_json import NotJSON
from metaflow_agents.texts.strict_json import read as read_json

PATH = "/embeddings"
_OF_A_TEXT = 2**18                      # bytes of an answer for each text: 8,192 numbers, each of 30 characters
_ROOM = 2**20
_OF_A_REFUSAL = 2**16
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def prepared(name: str, request: ModelRequest) -> PreparedRequest:
    """The request as it goes out."""
    asked = {"model": name, "input": request.texts, **request.parameters}
    return PreparedRequest(_encode(asked).encode(), "max_completion_tokens", streamed=False, usage=False, asks="embeddings")


async def embeddings(asker: Asker, silence: float, client: Client, request: ModelRequest, prepared: PreparedRequest,
                     learned: Learned) -> Reply:
    """The vectors. Raises CallFailed, and nothing else, for whatever else comes."""
    try:
        async with asyncio.timeout(silence + CONNECTING):
            status, headers, body = await _sent(client, prepared, silence, len(request.messages))
    except TimeoutError:
        raise CallFailed(f"the endpoint {asker.url} has not embedded {len(request.messages)} texts after {silence:g} s",
                         then="again", charged=None, silent=True) from None
    except wire_faults() as error:
        raise broken(error, asker.url, learned, silence) from error
    learned.unreached = 0
    if status not in (200, 201):
        raise refused(Refusal(status, headers, body), asker, prepared, learned, 0)
    return _reply(asker, body, request, prepared, learned)


async def _sent(client: Client, prepared: PreparedRequest, silence: float, count: int) -> tuple[int, dict[str, str], bytes]:
    response = await send(client, "POST", PATH, prepared.body, silence)
    try:
        fine = response.status_code in (200, 201)
        body = await read(response, _ROOM + _OF_A_TEXT * count if fine else _OF_A_REFUSAL)
        return response.status_code, {name.lower(): value for name, value in response.headers.items()}, body
    finally:
        await response.aclose()


def _reply(asker: Asker, body: bytes, request: ModelRequest, prepared: PreparedRequest, learned: Learned) -> Reply:
    try:
        told = read_json(body, lenient=True, most=len(body))
    except NotJSON:
        told = None
    if not isinstance(told, dict):
        raise CallFailed(f"the endpoint {asker.url} sent what is no JSON for embeddings", then="again", charged=None)
    usage = usage_of(told.get("usage"))
    charged = None if usage is None else usage.tokens
    if told.get("error"):
        raise told_error(told["error"], False, asker, prepared, learned, 0)
    try:
        value = embedded(_vectors(told.get("data")))
    except ValueError as error:
        raise CallFailed(f"the endpoint {asker.url} sent no embeddings: {error}", then="again", charged=charged) from error
    if fault := fault_of(value, len(request.messages)):
        raise CallFailed(f"the endpoint {asker.url} {fault}", then="again", charged=charged)
    if usage is None:
        return Reply(value=value, tokens_in=len(prepared.body), estimated=True)
    return Reply(value=value, tokens_in=usage.tokens, tokens_cached=usage.tokens_cached)


def _vectors(data: Any) -> list[Any]:
    """What each text became, in the order of `index` where all tell one. Raises ValueError."""
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise ValueError("there is no list `data`")
    places = [one.get("index") for one in data]
    if sorted(place for place in places if type(place) is int) == list(range(len(data))):
        data = sorted(data, key=lambda one: one["index"])
    elif any(place is not None for place in places) and set(places) != {0}:
        raise ValueError(f"its `index` counts {places[:8]}")
    return [_numbers(one.get("embedding")) for one in data]


def _numbers(told: Any) -> Any:
    if not isinstance(told, str):
        return told
    try:
        data = base64.b64decode(told, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an embedding is a text, and no base64") from None
    return struct.unpack(f"<{len(data) // 4}f", data) if len(data) % 4 == 0 else ()
