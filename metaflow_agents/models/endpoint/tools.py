"""Tools, calls and results as the chat-completions protocol writes them, and calls as it gives them back.

Source: the OpenAI reference of chat completions; a function's name has at most 64 characters of `A-Z a-z 0-9 _ -` there, so that
names such as `github.search` travel under another one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from metaflow_agents.models.calls import arguments_of, as_text, numbered
from metaflow_agents.models.endpoint.calling import Called
from metaflow_agents.models.port import ModelRequest, ToolCall

LONGEST_NAME = 64
_FITS = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def wire_name(name: str) -> str:
    """A name as the protocol takes it: itself where it fits, else each other character as `_`, and no longer than may be."""
    return name if _FITS.fullmatch(name) else _OTHER.sub("_", name)[:LONGEST_NAME] or "_"


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Names → different names that the protocol takes. Those that fit stay; of others that would be alike, the later have a
    fingerprint of their own at the end.
    """
    given = list(dict.fromkeys(names))
    found = {name: name for name in given if _FITS.fullmatch(name)}
    taken = set(found)
    for name in given:
        if name not in found:
            wire, salt = wire_name(name), 0
            while wire in taken:
                mark = hashlib.sha256(f"{salt}:{name}".encode()).hexdigest()[:8]
                wire, salt = f"{wire_name(name)[:LONGEST_NAME - 9]}_{mark}", salt + 1
            found[name] = wire
            taken.add(wire)
    return found


def names_in(request: ModelRequest) -> Iterator[str]:
    """All names of tools in a request: those that it offers, and those that were called before."""
    for tool in request.tools:
        yield tool["name"]
    for message in request.messages:
        for call in message.get("calls", ()):
            yield call["name"]


def offered(tools: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The tools of a request."""
    return [{"type": "function", "function": {
        "name": names[tool["name"]], **({"description": tool["description"]} if tool.get("description") else {}),
        "parameters": tool.get("parameters") or _NO_ARGUMENTS}} for tool in tools]


def spoken(messages: Iterable[Mapping[str, Any]], names: Mapping[str, str],
           blob: Callable[[str], bytes] | None = None) -> list[dict[str, Any]]:
    """The messages of a request. `blob` gives the bytes of their pictures."""
    return [_spoken(message, names) if blob is None or not message.get("images") else _pictured(message, blob)
            for message in messages]


def _pictured(message: Mapping[str, Any], blob: Callable[[str], bytes]) -> dict[str, Any]:
    """A message with pictures as its parts: its text, then each picture behind its name."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": message["content"]}]
    for image in message["images"]:
        data = base64.b64encode(blob(image["sha256"])).decode()
        parts += [{"type": "text", "text": f"{image['name'] or 'picture'}:"},
                  {"type": "image_url", "image_url": {"url": f"data:{image['media_type']};base64,{data}"}}]
    return {"role": message["role"], "content": parts}


def _spoken(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["id"], "content": message["content"]}
    if not message.get("calls"):
        return dict(message)
    # An empty text is one that some servers refuse; null is what the protocol has for none.
    return {"role": message["role"], "content": message["content"] or None, "tool_calls": [
        {"id": call["id"], "type": "function",
         "function": {"name": names[call["name"]], "arguments": _arguments(call["arguments"])},
         **({"extra_content": call["extra"]} if call.get("extra") else {})} for call in message["calls"]]}


def _arguments(given: Mapping[str, Any] | str) -> str:
    """Arguments as JSON. Those that were none are told in an object: many servers parse what they get back, and fail on it."""
    return _encode({"not_a_json_object": given} if isinstance(given, str) else dict(given))


def taken(calls: Sequence[Called], request: ModelRequest, names: Mapping[str, str], *, cut: bool) -> tuple[ToolCall, ...]:
    """The calls of an answer, under the names that the request has for their tools. In one that was `cut`, the last was."""
    back = {wire: name for name, wire in names.items()}
    last = len(calls) - 1
    return numbered([ToolCall(call.id, back.get(call.name, as_text(call.name)),
                              arguments_of(call.arguments, cut=cut and place == last), call.extra)
                     for place, call in enumerate(calls)], request.messages)
