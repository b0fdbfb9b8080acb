"""Tools in text, for models that have no tool calls of their own.

What such a model is sent tells the tools at the end of the system prompt and quotes results in messages of the user; it calls a
tool by a fenced block (CommonMark 0.31, section 4.5) whose info string is `tool`:

    ```tool
    {"name": "read", "arguments": {"path": "a.txt"}}
    ```

Only the model's own reply is read for blocks. One that stands inside of another fence, or of a block of a file, is quoted and no
call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from metaflow_agents.models.calls import arguments_of, as_text, numbered
from metaflow_agents.models.port import ModelRequest, Reply, ToolCall
from metaflow_agents.models.schema_in_words import in_words
from metaflow_agents.prompts import from_package
from metaflow_agents.texts.strict_json import NotJSON, read_next

_OPENING = re.compile(
    r"^(?: {0,3}(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n`]*)|=== (?:file|edit): [^\n]* ===[ \t\r]*)$", re.MULTILINE)
_FILE_END = re.compile(r"^=== end ===[ \t\r]*$", re.MULTILINE)
_TOOL = re.compile(r"tool(?:_calls?)?", re.IGNORECASE)
_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\\n]|\\.)*)"')
_BLANK = re.compile(r"\s*")
_BACKTICKS = re.compile(r"`{3,}")
_KEPT = "_in_text"                  # a request's text form, made once and kept in it


def forms(request: ModelRequest) -> Iterator[ModelRequest]:
    """The request as it may have been sent: as it is, and in the text form where that is another; both without its pictures."""
    for shown in (request, without_images(request)) if request.images else (request,):
        yield shown
        if in_text(shown) is not shown:
            yield in_text(shown)


def without_images(request: ModelRequest) -> ModelRequest:
    """The request for a model that takes no pictures: its text says name, type and size of each."""
    if not request.images:
        return request
    return replace(request, messages=tuple({name: value for name, value in message.items() if name != "images"}
                                           for message in request.messages))


def in_text(request: ModelRequest) -> ModelRequest:
    """The request in the text form: without tools, calls and results, and, where it has tools, with its schema in words, for a
    call could not be given where every answer is held to that. It is the request itself where it has none of these.
    """
    kept: ModelRequest | None = vars(request).get(_KEPT)
    if kept is None:
        plain = not request.tools and not any("calls" in message or message["role"] == "tool" for message in request.messages)
        kept = request if plain else replace(request, messages=tuple(_spoken(request)), tools=(),
                                             schema=None if request.tools else request.schema)
        vars(request)[_KEPT] = kept
    return kept


def _spoken(request: ModelRequest) -> Iterator[dict[str, Any]]:
    messages = [dict(message) for message in in_words(request.messages, request.schema if request.tools else None)]
    if request.tools:
        told = from_package("tools", {"part": "tools", "results": [], "tools": [
            {"name": tool["name"], "description": tool.get("description") or "",
             "parameters": json.dumps(tool.get("parameters") or {}, ensure_ascii=False)} for tool in request.tools]})
        if messages and messages[0]["role"] == "system":
            messages[0]["content"] = f"{messages[0]['content'].rstrip()}\n\n{told}"
        else:
            messages.insert(0, {"role": "system", "content": told})
    results: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        yield from _quoted(results)
        results = []
        images = {"images": message["images"]} if "images" in message else {}
        yield {"role": message["role"], "content": "\n\n".join(
            [part for part in [message["content"], *map(_block, message.get("calls", ()))] if part]), **images}
    yield from _quoted(results)


def _quoted(results: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One message for all results that came together: many models take no two messages of one side in a row."""
    if results:
        shown = [{**result, "fence": _fence_around(result["content"])} for result in results]
        yield {"role": "user", "content": from_package("tools", {"part": "results", "tools": [], "results": shown})}


def _fence_around(content: str) -> str:
    """A fence that nothing in the content can close."""
    return "`" * (1 + max([2, *(len(found) for found in _BACKTICKS.findall(content))]))


def _block(call: Mapping[str, Any]) -> str:
    said = json.dumps({"name": call["name"], "arguments": call["arguments"]}, ensure_ascii=False)
    return f"```tool\n{said}\n```"


def called(reply: Reply, request: ModelRequest) -> Reply:
    """The reply to a request in the text form with its calls, and the text around them. `request` is what was to be asked."""
    if reply.text is None or not request.tools:
        return reply
    texts, calls = read_blocks(reply.text)
    if not calls:
        return reply
    around = "\n\n".join(text.strip() for text in texts if text.strip())
    return replace(reply, text=around, calls=numbered(calls, request.messages))


def read_blocks(text: str) -> tuple[list[str], list[ToolCall]]:
    """The text around the blocks of an answer, in pieces, and the calls in them, without ids."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    never: set[str] = set()             # what closes nothing from here on, so that it is looked for once
    at = begun = 0
    while (opening := _OPENING.search(text, at)) is not None:
        body = min(opening.end() + 1, len(text))
        if opening["fence"] is None or _TOOL.fullmatch(opening["info"].strip()) is None:
            at = _after(text, body, opening["fence"], never)
            continue
        values, until = _values(text, body)
        end = _closing(opening["fence"]).search(text, until)
        inner_end, at = (len(text), len(text)) if end is None else (end.start(), end.end())
        inner = text[body:inner_end]
        whole = values and not text[until:inner_end].strip()
        calls.extend([_call(value, inner) for value in values] if whole else [_broken(inner)])
        texts.append(text[begun:opening.start()])
        begun = at
    return [*texts, text[begun:]], calls


def _after(text: str, body: int, fence: str | None, never: set[str]) -> int:
    """Where a quotation ends that begins at `body`: a file's block (no `fence`), or a fence. One never closed quotes nothing."""
    closing = _FILE_END if fence is None else _closing(fence)
    end = None if closing.pattern in never else closing.search(text, body)
    if end is None:
        never.add(closing.pattern)
    return body if end is None else end.end()


@lru_cache(maxsize=64)
def _closing(fence: str) -> re.Pattern[str]:
    return re.compile(rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t\r]*$", re.MULTILINE)


def _values(text: str, at: int) -> tuple[list[Any], int]:
    """The JSON values that stand one behind the other, and where the last of them ends."""
    found: list[Any] = []
    while True:
        begin = _BLANK.match(text, at).end()            # type: ignore[union-attr]
        if text[begin:begin + 1] not in ("{", "["):
            return found, at
        try:
            value, at = read_next(text, begin)
        except NotJSON:
            return found, at
        found.extend(value if isinstance(value, list) else [value])


def _call(value: Any, inner: str) -> ToolCall:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        return _broken(inner)
    for word in ("arguments", "parameters"):
        if word in value:
            return ToolCall("", as_text(value["name"]), arguments_of(value[word]))
    return ToolCall("", as_text(value["name"]), {}) if set(value) == {"name"} else _broken(inner)


def _broken(inner: str) -> ToolCall:
    """A block that can't be read, with the name that stands in it, where one does."""
    name = _NAME.search(inner)
    return ToolCall("", name[1] if name else "", inner.strip())
