"""How long an endpoint asks to wait, in all the forms in which they say it. Seconds; None where none was said.

Sources: RFC 9110, section 10.2.3 (`Retry-After`); the headers `retry-after-ms` and `x-ratelimit-reset-…` of OpenAI and of
those who follow it; sentences and fields in the bodies of refusals.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_UNITS = {"ms": 0.001, "milliseconds": 0.001, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "m": 60.0,
          "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0,
          "day": 86400.0, "days": 86400.0}
_LONGEST = 200                      # characters of a time
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")
_SPOKEN = re.compile(r"(?:try again|retry|wait|available|resets?)\s*+(?:again\s*+)?(?:in|after|for|at least)?[\s:=]*+"
                     r"(?:about\s*+)?"
                     r"((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)(?![a-z])\s*)+)",
                     re.IGNORECASE)
_DELAY = re.compile(r'"(?:retryDelay|retry_after|retryAfter|retry_after_seconds)"\s*:\s*"?(\d+(?:\.\d+)?)(ms|s)?"?')
_LONG_AGO = 10**9                       # a larger number is no wait but a moment: Unix time in seconds, or in milliseconds


def asked_wait(headers: Mapping[str, str], body: str) -> float | None:
    """Seconds to wait before the next try, from a refusal's headers (names in lower case) and body."""
    for found in (_in_ms(headers.get("retry-after-ms")), _retry_after(headers), _reset(headers), _said(body)):
        if found is not None:
            return max(found, 0.0)
    return None


def _in_ms(written: str | None) -> float | None:
    value = _number(written)
    return None if value is None else value / 1000


def _retry_after(headers: Mapping[str, str]) -> float | None:
    written = headers.get("retry-after", "").strip()
    if not written:
        return None
    value = _number(written)
    if value is not None:
        return _from_now(value) if value > _LONG_AGO else value
    moment = _moment(written)
    if moment is not None:
        now = _moment(headers.get("date", ""))      # the server's own clock, where it tells it: ours may be another
        return moment - (time.time() if now is None else now)
    return duration(written)


def _reset(headers: Mapping[str, str]) -> float | None:
    """When what is exhausted is there again; what is not said to be exhausted counts only if nothing says so."""
    waits: list[tuple[bool, float]] = []
    for name, written in headers.items():
        if not name.startswith(("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset")):
            continue
        value = _number(written)
        wait = duration(written) if value is None else _from_now(value) if value > _LONG_AGO else value
        left = _number(headers.get(name.replace("reset", "remaining")))
        if wait is not None and (left is None or left <= 0):
            waits.append((left is not None, wait))
    if not waits:
        return None
    exhausted = [wait for known, wait in waits if known]
    return max(exhausted) if exhausted else min(wait for _, wait in waits)


def _said(body: str) -> float | None:
    field = _DELAY.search(body)
    if field:
        return float(field[1]) * (0.001 if field[2] == "ms" else 1.0)
    sentence = _SPOKEN.search(body)
    return duration(sentence[1]) if sentence else None


def duration(written: str) -> float | None:
    """`6m0s`, `1.5s`, `120ms`, `2 minutes` as seconds."""
    parts = _PART.findall(written[:_LONGEST])
    if not parts or any(unit.lower() not in _UNITS for _, unit in parts):
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def _number(written: str | None) -> float | None:
    try:
        value = float(written or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _from_now(moment: float) -> float:
    return (moment / 1000 if moment > _LONG_AGO * 100 else moment) - time.time()


def _moment(written: str) -> float | None:
    try:
        return parsedate_to_datetime(written).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
