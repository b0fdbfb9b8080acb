"""Quantities as people write them: `30m`, `1.5M`, `40 turns`."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMG]?)")
_SCALE = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def seconds(written: object) -> float:
    """`90`, `1.5s`, `30m`, `1h30m`, `250ms` as seconds. Raises ValueError, saying the forms."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        value = float(written)
    elif isinstance(written, str) and _DURATION.fullmatch(written.replace(" ", "")):
        value = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(written.replace(" ", "")))
    else:
        raise ValueError(f"{written!r} is not a duration: write seconds, or like 250ms, 90s, 30m, 1h30m, 2d")
    if not 0 < value <= 366 * 86400:
        raise ValueError(f"{written!r} is out of range: a duration is more than 0 and at most 366d")
    return value


def count(written: object) -> int:
    """`300`, `16k`, `1.5M` as a whole number above 0. Raises ValueError, saying the forms."""
    if isinstance(written, int) and not isinstance(written, bool):
        value: int | Decimal = written
    elif isinstance(written, str) and (match := _COUNT.fullmatch(written.strip())):
        value = Decimal(match[1]) * _SCALE[match[2]]
    else:
        raise ValueError(f"{written!r} is not a count: write a whole number, or like 16k, 1.5M")
    if value != int(value) or not 0 < value <= 10**15:
        raise ValueError(f"{written!r} is out of range: a count is a whole number above 0")
    return int(value)


def calls(written: object) -> int:
    """`10 calls`, or a count. Raises ValueError, saying the forms."""
    text = written.strip().removesuffix("s").removesuffix("call").strip() if isinstance(written, str) else written
    try:
        return count(text)
    except ValueError:
        raise ValueError(f"{written!r} is not a number of calls: write like `10 calls`") from None


def dollars(written: object) -> float:
    """`5`, `0.25`, `$5` as US dollars above 0. Raises ValueError, saying the forms."""
    text = written.strip().removeprefix("$") if isinstance(written, str) else written
    try:
        value = float("nan") if isinstance(text, bool) else float(text)     # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = float("nan")
    if not 0 < value <= 10**9:
        raise ValueError(f"{written!r} is not an amount: write US dollars above 0, like 5 or 0.25")
    return value


def window(written: object) -> tuple[int, str]:
    """`40 turns` or `16k tokens` as (number, unit); `0 turns` keeps none. Raises ValueError, saying the forms."""
    if isinstance(written, str):
        number, _, unit = written.strip().rpartition(" ")
        if number.strip() == "0":
            if unit == "turns":
                return 0, unit
            raise ValueError(f"{written!r} is not a window: to keep nothing write `0 turns`, or `memory: none` at the role")
        if unit in ("turns", "tokens", "turn", "token") and number:
            return count(number), unit.rstrip("s") + "s"
    if isinstance(written, list | tuple) and len(written) == 2 and written[1] in ("turns", "tokens"):
        return (0 if written[0] == 0 else count(written[0])), str(written[1])      # its own normal form, as the journal keeps it
    raise ValueError(f"{written!r} is not a window: write like `40 turns` or `16k tokens`")
