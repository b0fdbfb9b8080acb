"""Numbers and times as people read them."""

from __future__ import annotations

import time
from functools import lru_cache

from metaflow_agents.models.pricing import dollars, picodollars


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def amount(number: int, noun: str, plural: str | None = None) -> str:
    """`1 call`, `1,200 calls`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short(number: int) -> str:
    """`950`, `12.3k`, `1.5M`."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + letter
    return str(number)


def money(cost: int, bound: int = 0) -> str:
    """Picodollars: `$0.42`, or `at most $0.42` where some of it (`bound` picodollars) is an upper bound."""
    return f"at most {dollars(cost)}" if bound else dollars(cost)


def whole_dollars(usd: float) -> str:
    """A cap in US dollars: `$5`, `$0.25`."""
    return dollars(picodollars(usd)).removesuffix(".00")


def clock(at: float) -> str:
    """The local time of day of a Unix time, `14:03:59`."""
    return _clock(int(at))


@lru_cache(maxsize=8)                           # thousands of minutes fall into few seconds
def _clock(at: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def moment(at: float) -> str:
    """The local date and time of a Unix time, `2025-03-01 14:03`."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def listed(names: list[str], most: int = 4) -> str:
    """`a, b, c`, or `a, b, c, … (9 in all)`."""
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most - 1])}, … ({len(names)} in all)"
