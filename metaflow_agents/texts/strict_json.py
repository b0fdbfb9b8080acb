"""The one strict reader of JSON that somebody else wrote: endpoints, tools, commands, servers, people, files.

What it takes is I-JSON (https://www.rfc-editor.org/rfc/rfc7493) within bounds:

- UTF-8, a byte order mark at its beginning left out; at most `BYTES`, `VALUES` values, `DEEPEST` lists and mappings deep;
- a number has a finite double beside it: `1e999` and an integer of 400 digits are refused, and a literal of more than `DIGITS`
  characters; `1e-400` is the nearest double, 0.0; integers keep all their digits; `-0` is 0 and `-0.0` is -0.0;
- `NaN`, `Infinity` and `-Infinity` are refused, and so are half surrogate pairs (in keys and values, written as escapes or not);
- a key that is duplicated in one object is refused: two readers would disagree about which counts.

`lines` takes line ends inside of texts as well, as some models write them in the arguments of a call.
`lenient` is for the envelopes of models' endpoints, of which a caller picks what it knows and checks that itself: line ends
inside of texts are taken, numbers beyond doubles and `NaN` read as null, half pairs are left to who puts streamed pieces
together, and of a duplicated key the last value counts. The bounds hold all the same.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

BYTES = 16 << 20
DEEPEST = 100
DIGITS = 1_000
VALUES = 1_000_000

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_BUT_BRACKETS = re.compile(_STRING + r'|[^\[\]{}"]++', re.DOTALL)
_STRINGS = re.compile(_STRING, re.DOTALL)
_LARGE = re.compile(r"\d{200}|\d[eE]\+?\d{2}")               # numbers that may lie beyond doubles; others can't
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")
_ONE_KIND = str.maketrans("{}", "[]")
_PLAIN = re.compile(_STRING + r"|-?[\d.eE+-]++|-?[A-Za-z]++", re.DOTALL)


class NotJSON(ValueError):
    """What came is no JSON that is taken. The message says what is wrong, and where: line and column, or the path to it."""


def read(written: str | bytes, *, lines: bool = False, lenient: bool = False, most: int = BYTES, deepest: int = DEEPEST) -> Any:
    """The value that a JSON text holds. `most`: its size in bytes, or in characters of a text; `deepest`: its levels. Raises
    NotJSON.
    """
    text = _text(written, most, lenient=lenient)
    _bounded(text)
    shallow = _shallow(text, deepest)
    try:
        value = (_lenient(text) if lenient else _strict(text, lines=lines)).decode(text)
    except json.JSONDecodeError as error:
        raise NotJSON(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotJSON(_DEEP) from None
    if not shallow:
        raise NotJSON(_DEEP)
    if not lenient and _HALVES.search(text):
        check(value, deepest)
    return value


def read_next(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at a place of a longer text, and where it ends; with `lines`. Raises NotJSON."""
    try:
        value, end = _NEXT.raw_decode(text, at)         # one that never looks at the whole text: it is asked often
    except json.JSONDecodeError as error:
        raise NotJSON(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise NotJSON(_DEEP) from None
    read_text = _text(text[at:end], BYTES, lenient=False)
    if not _shallow(read_text):
        raise NotJSON(_DEEP)
    if _HALVES.search(read_text):
        check(value)
    return value, end


def check(value: Any, deepest: int = DEEPEST) -> None:
    """Holds a value that another reader has made of foreign bytes to the same rules. Raises NotJSON, with the path.

    Also for what somebody's function gave: texts, numbers, true, false, null, lists, and mappings whose keys are texts.
    """
    stack: list[Iterator[tuple[Any, Any]]] = [iter([("", value)])]
    path: list[Any] = [""]
    count = 0
    while stack:
        for key, inner in stack[-1]:
            path[-1] = key
            count += 1
            if count > VALUES:
                raise NotJSON(_MANY)
            if isinstance(inner, dict | list | tuple):
                if len(stack) > deepest:
                    raise NotJSON(_DEEP)
                stack.append(iter(inner.items()) if isinstance(inner, dict) else iter(enumerate(inner)))
                path.append("")
                break
            if fault := _fault(inner):
                raise NotJSON(f"{_where(path)} {fault}")
        else:
            stack.pop()
            path.pop()
            continue
        if isinstance(inner, dict) and (bad := next((each for each in inner if not _is_key(each)), None)) is not None:
            raise NotJSON(f"{_where(path[:-1])} has the key {bad!r:.80}, which is no text that can be written")


def finite(value: int | float) -> bool:
    """Whether a number lies among the finite doubles."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


_DEEP = f"it is nested deeper than {DEEPEST} levels"
_MANY = f"it holds more than {VALUES:,} values"


def _text(written: str | bytes, most: int, *, lenient: bool) -> str:
    if len(written) > most:
        unit = "characters" if isinstance(written, str) else "bytes"
        raise NotJSON(f"it has {len(written):,} {unit}; at most {most:,} are read")
    if not isinstance(written, str):
        try:
            return written.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise NotJSON(f"it is no UTF-8 (byte {error.start:,} of {len(written):,})") from None
    if not written.isascii() and not lenient:
        try:
            written.encode()
        except UnicodeEncodeError as error:
            raise NotJSON(f"half a surrogate pair at {_line_column(written, error.start)}") from None
    return written


def _bounded(text: str) -> None:
    """Refuses more than VALUES values before any is made: each but the first follows a comma or opens a container."""
    def most(of: str) -> int:
        return of.count(",") + of.count("[") + of.count("{") + 1
    if most(text) > VALUES and most(_STRINGS.sub("", text)) > VALUES:
        raise NotJSON(_MANY)


def _shallow(text: str, deepest: int = DEEPEST) -> bool:
    """Whether the brackets of a text nest no deeper than `deepest`. False also where they do not match: the reader tells that."""
    if text.count("[") + text.count("{") <= deepest:
        return True
    left = _BUT_BRACKETS.sub("", text).translate(_ONE_KIND)
    too_many = "[" * (deepest + 1)
    for _ in range(deepest):
        if not left or too_many in left:
            break
        left = left.replace("[]", "")
    return not left


def _lenient(text: str) -> json.JSONDecoder:
    large = _LARGE.search(text) is not None
    return json.JSONDecoder(strict=False, parse_constant=_null, parse_int=_int_or_null if large else None,
                            parse_float=_float_or_null if large else None)


def _strict(text: str, *, lines: bool) -> json.JSONDecoder:
    return _strictly(lambda token: f", at {_place(text, token)}", lines=lines, large=_LARGE.search(text) is not None)


def _strictly(place: Callable[[str], str], *, lines: bool, large: bool) -> json.JSONDecoder:
    """`place` tells where a token stands; `large`: numbers beyond doubles may be among what is read."""
    def refused(name: str) -> NoReturn:
        raise NotJSON(f"{name} is no JSON number{place(name)}")

    return json.JSONDecoder(strict=not lines, parse_constant=refused, object_pairs_hook=_once,
                            parse_int=_number(_int_or_null, place) if large else None,
                            parse_float=_number(_float_or_null, place) if large else None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise NotJSON(f"the key {json.dumps(twice[:80])} is duplicated in one object")
    return found


def _number(taken: Callable[[str], int | float | None], place: Callable[[str], str]) -> Callable[[str], int | float]:
    def made(written: str) -> int | float:
        found = taken(written)
        if found is None:
            shown = written if len(written) <= 40 else f"{written[:20]}… ({len(written):,} characters)"
            raise NotJSON(f"the number {shown} is larger than any double{place(written)}")
        return found
    return made


def _int_or_null(written: str) -> int | None:
    found = int(written) if len(written) <= DIGITS else None
    return found if found is not None and finite(found) else None


def _float_or_null(written: str) -> float | None:
    found = float(written) if len(written) <= DIGITS else math.inf
    return found if math.isfinite(found) else None


def _null(_: str) -> None:
    return None


def _place(text: str, token: str) -> str:
    """Where a token that is no text stands first."""
    at = next((found.start() for found in _PLAIN.finditer(text) if found[0] == token), 0)
    return _line_column(text, at)


def _line_column(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def _where(path: list[Any]) -> str:
    told = "".join(f"[{part}]" if isinstance(part, int) else f".{part}"[:80] for part in path[1:])
    return f"`{told.lstrip('.')}`" if told else "the value"


def _fault(value: Any) -> str:
    """What keeps a single value from being JSON; empty where nothing does."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        return "" if _has_bytes(value) else "holds half a surrogate pair"
    if isinstance(value, int):
        return "" if finite(value) else "is a number larger than any double"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"is {value}, which is no JSON number"
    return f"is of the type {type(value).__name__}, which JSON does not have"


def _is_key(key: Any) -> bool:
    return isinstance(key, str) and _has_bytes(key)


def _has_bytes(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


_NEXT = _strictly(lambda _: "", lines=True, large=True)
