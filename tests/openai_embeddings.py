"""How the test server embeds: `POST /embeddings`, in the shapes that servers have, and their faults, by name in `SHAPES`.

What is no answer at all (refusals, silence, a broken connection) is as with chat completions: `openai_faults.FAULTS`.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from openai_faults import FAULTS, Bill, Out, error

if TYPE_CHECKING:
    from openai_server import OpenAIServer

Told = dict[str, Any]


def _base64(told: Told) -> Told:
    """What is asked for by `encoding_format: base64`, and what some send anyway."""
    for one in told["data"]:
        one["embedding"] = base64.b64encode(struct.pack(f"<{len(one['embedding'])}f", *one["embedding"])).decode()
    return told


def _shuffled(told: Told) -> Told:
    return {**told, "data": told["data"][::-1]}


def _no_index(told: Told) -> Told:
    return {**told, "data": [{"embedding": one["embedding"]} for one in told["data"]]}


def _no_usage(told: Told) -> Told:
    return {"data": told["data"]}


def _few(told: Told) -> Told:
    return {**told, "data": told["data"][:-1]}


def _ragged(told: Told) -> Told:
    told["data"][0]["embedding"].append(1.0)
    return told


def _no_numbers(told: Told) -> Told:
    told["data"][0]["embedding"][0] = None
    return told


def _odd_index(told: Told) -> Told:
    return {**told, "data": [{**one, "index": one["index"] + 1} for one in told["data"]]}


def _nothing(told: Told) -> Told:
    return {"object": "list"}


SHAPES: dict[str, Callable[[Told], Told]] = {
    "plain": lambda told: told, "base64": _base64, "shuffled": _shuffled, "no_index": _no_index, "no_usage": _no_usage,
    "few": _few, "ragged": _ragged, "no_numbers": _no_numbers, "odd_index": _odd_index, "nothing": _nothing}
FINE = ("plain", "base64", "shuffled", "no_index", "no_usage")
"""Shapes that are no faults."""


async def _cut(server: OpenAIServer, told: Told, out: Out) -> None:
    body = json.dumps(told).encode()
    out.head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
    out.raw(body[:len(body) // 2])
    await out.cut()


async def _html(server: OpenAIServer, told: Told, out: Out) -> None:
    out.body(200, b"<html>Welcome</html>", {"Content-Type": "text/html"})


BREAKS: dict[str, Callable[[OpenAIServer, Told, Out], Awaitable[None]]] = {"cut_whole": _cut, "html_whole": _html}


async def embed(server: OpenAIServer, asked: Told, bill: Bill, out: Out) -> None:
    """Answers one request, or fails as the plan says."""
    bill.fault = server.plan(bill.number) if callable(server.plan) else server.plan.get(bill.number, "")
    refusal = _refusal(server, asked)
    if refusal is not None:
        bill.status = refusal[0]
        out.json(*refusal)
    elif bill.fault in FAULTS:
        await FAULTS[bill.fault].make(server, asked, bill, out, "")
    else:
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        bill.tokens_in, bill.told = len("".join(texts).encode()), bill.fault != "no_usage"
        told = {"object": "list", "model": asked["model"], "usage": {"prompt_tokens": bill.tokens_in,
                                                                     "total_tokens": bill.tokens_in},
                "data": [{"object": "embedding", "index": place, "embedding": list(server.vector(text))}
                         for place, text in enumerate(texts)]}
        if bill.fault in BREAKS:
            await BREAKS[bill.fault](server, told, out)
        else:
            out.json(200, SHAPES[bill.fault or "plain"](told))


def _refusal(server: OpenAIServer, asked: Told) -> tuple[int, Any, dict[str, str]] | None:
    if server.models and asked["model"] not in server.models:
        return 404, error(f"The model `{asked['model']}` does not exist", "invalid_request_error", "model_not_found"), {}
    strange = set(asked) - {"model", "input", "dimensions", "encoding_format", "user"}
    if strange:
        return 400, error(f"Unrecognized request argument supplied: {', '.join(sorted(strange))}", "invalid_request_error"), {}
    return None
