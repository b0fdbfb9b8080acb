"""What a call cost, as servers tell it: every server has its own idea of a usage block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.texts.strict_json import finite

_DIGITS = 18                        # of a count that a text tells
_MOST = 10**7                       # tokens of a call: no model takes or writes as many, so that a larger count tells nothing


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in, out (reasoning included), and of those in, what the endpoint had cached."""

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.tokens_in + self.tokens_out


def usage_of(told: Any) -> Usage | None:
    """The counts of a usage block; None where it tells none: absent, null, all zero, no counts, or more than any call can have.

    Where the total is larger than its parts, the rest is charged as tokens out: some servers count reasoning there alone.
    """
    if not isinstance(told, Mapping):
        return None
    into, out, total = _count(told, "prompt_tokens", "input_tokens"), _count(told, "completion_tokens", "output_tokens"), \
        _count(told, "total_tokens")
    if into is None or not into:
        return None
    if out is None:
        if total is None or total < into:
            return None
        out = total - into
    reasoning = _count(told.get("completion_tokens_details"), "reasoning_tokens") or _count(told, "reasoning_tokens") or 0
    if total is not None:
        out = max(out, total - into)
    elif reasoning > out:
        out += reasoning                    # it can't be a part of what is smaller
    cached = (_count(told.get("prompt_tokens_details"), "cached_tokens")
              or _count(told.get("input_tokens_details"), "cached_tokens")
              or _count(told, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens") or 0)
    if cached > into:
        into += cached                      # this server counts them apart
    return Usage(into, out, cached) if into + out <= _MOST else None


def usage_in(message: Mapping[str, Any]) -> Usage | None:
    """The usage block of an answer or of a chunk, wherever the server puts it."""
    found = usage_of(message.get("usage"))
    if found is None and isinstance(groq := message.get("x_groq"), Mapping):
        found = usage_of(groq.get("usage"))
    choices = message.get("choices")
    if found is None and isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        found = usage_of(choices[0].get("usage"))
    return found


def _count(told: Any, *names: str) -> int | None:
    """The first of these that is a count; fractions are rounded up."""
    if not isinstance(told, Mapping):
        return None
    for name in names:
        value = told.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS:
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and finite(value) and value >= 0:
            return math.ceil(value)
    return None
