"""How servers word their refusals: a status says little, and a machine-readable code is often missing."""

from __future__ import annotations

import json
import re
from typing import Any

from metaflow_agents.texts.strict_json import NotJSON, read

_LONGEST = 300                      # characters of what it said


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE | re.DOTALL)


# Not `billing`: sentences about a rate end with it.
NO_MONEY = _any(r"insufficient.?(?:quota|balance|credit|funds)", r"exceeded your current quota", r"payment required",
                r"out of credits?", r"credit balance", r"arrearage")
TOO_LONG = _any(r"context.?(?:length|window|size)", r"prompt is too long", r"too many (?:input )?tokens", r"input is too long",
                r"maximum (?:prompt|input|context)", r"(?:input|prompt)[^.]{0,40}exceeds", r"reduce the length",
                r"string_above_max_length")
UNKNOWN_MODEL = _any(r"model.?not.?found", r"(?:no|unknown|invalid|unsupported|unrecognized) model", r"not a valid model",
                     r"model\b.{0,120}?(?:does not exist|doesn't exist|not found|not exist|is not available|unknown)",
                     r"model\b.{0,120}?is not supported", r"no endpoints found for", r"there is no model")
FORMAT = _any(r"response_?format", r"json_schema", r"json_object", r"structured.?output", r"json.?mode", r"guided", r"grammar",
              r"json schema")
THIS_SCHEMA = _any(r"invalid.{0,3}(?:json.{0,3})?schema", r"schema (?:contains|exceeds|is too|is invalid|conversion)",
                   r"in context=\(", r"failed to (?:parse|convert|compile).{0,20}(?:schema|grammar)", r"could not understand",
                   r"too (?:many states|complex)")
STRICT = _any(r"['\"`\[. ]strict\b")
NOT_TAKEN = _any(r"unsupported", r"not supported", r"unknown", r"unrecogni[sz]ed", r"unexpected", r"extra", r"not permitted",
                 r"not allowed", r"additional propert", r"invalid parameter", r"does not support", r"no such", r"isn't supported")
FILTER = _any(r"content.?filter", r"content.?management", r"responsible.?ai", r"moderation", r"flagged", r"data_inspection",
              r"safety", r"content.?policy", r"inappropriate")
TOOLS = _any(r"\btools?\b", r"function.?call", r"tool.?(?:call|use|choice)")
FORMAT_WITH_TOOLS = _any(r"mime.?type", FORMAT.pattern)
NO_TOOLS = _any(r"(?:does not|doesn't|do not|don't|cannot|can't|not) (?:currently )?support (?:the )?(?:use of )?"
                r"(?:tools?\b|tool.?(?:call|use|choice)|function.?call)",
                r"\b(?:tools?|(?:tool|function).?(?:calls?|calling|use|choice))\b[^.]{0,80}?(?:unsupported|disabled|"
                r"isn't supported|aren't supported|not (?:be )?(?:supported|available|enabled|permitted|allowed|implemented))",
                r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected|invalid|extra) (?:request )?(?:param|parameter|field|"
                r"argument|key|input)s?\b[^.]{0,30}?\btools?\b", r"enable-auto-tool-choice", r"requires --jinja",
                r"no endpoints found that support tool", r'"tools"\s*\][^}]{0,120}(?:extra|not permitted)')
NO_STREAM = _any(r"(?:does not|doesn't|do not|don't|cannot|can't|not|unsupported|unable to) (?:currently )?(?:support |be |use )?"
                 r"(?:the )?(?:value |use of )?['\"`]?stream(?:ing|ed)?\b",
                 r"['\"`]?\bstream(?:ing|ed)?\b['\"`]?[^.]{0,60}?(?:unsupported|disabled|"
                 r"(?:is not|isn't|are not|aren't|not|does not|doesn't) (?:be |yet )?(?:support|available|enabled|permitted|"
                 r"allowed|implemented))",
                 r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected|invalid) (?:request )?(?:param|parameter|field|value|"
                 r"argument|key)s?\b[^.]{0,30}?['\"`]stream['\"`]", r"must be verified to stream",
                 r'"stream"\s*\][^}]{0,120}(?:extra|not permitted)', r"only supported with stream[^.]{0,9}false",
                 r"stream(?:ing)?['\"`]? must be (?:false|disabled|off)")
BAD_CALL = _any(r"tool_use_failed", r"failed_generation", r"failed to call a function", r"malformed.{0,3}function",
                r"(?:could not|couldn't|unable to|failed to) parse (?:the )?(?:tool|function)")
LENGTH = _any(r"max_(?:completion_)?tokens")


def told_in(body: bytes, key: str | None) -> str:
    """What an error's body says, in one line, without the key."""
    text = body.decode("utf-8", "replace")
    try:
        said = _message(read(text, lenient=True))
    except NotJSON:
        said = _title(text) or re.sub(r"<[^<>]*>", " ", text)
    return line(said.replace(key, "…") if key else said) or "it said nothing more"


def _title(page: str) -> str:
    """The title of an HTML page; empty where it has none."""
    opening = re.search(r"<title\b[^<>]*>", page, re.IGNORECASE)
    closing = None if opening is None else re.compile(r"</title>", re.IGNORECASE).search(page, opening.end())
    return page[opening.end():closing.start()] if opening is not None and closing is not None else ""


def line(said: str) -> str:
    """Text in one line, not too long."""
    joined = " ".join(said.split())
    return f"{joined[:_LONGEST]}…" if len(joined) > _LONGEST else joined


def _message(told: Any) -> str:
    """The sentence in an error's JSON, wherever the server puts it."""
    if isinstance(told, list) and told:
        return _message(told[0])
    if not isinstance(told, dict):
        return str(told)
    for name in ("error", "message", "detail", "msg"):
        if told.get(name):
            inner, more = told[name], told.get("metadata")
            said = inner if isinstance(inner, str) else _message(inner)
            raw = more.get("raw") if isinstance(more, dict) else None       # what the server behind this one said
            return f"{said}: {raw}" if isinstance(raw, str) and raw else said
    return json.dumps(told, ensure_ascii=False)
