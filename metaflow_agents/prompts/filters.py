"""The filters of expressions and templates: deterministic, bounded, by item lookup only.

Left out on purpose: `attr` (Python attributes), `random`, `pprint` (addresses), `safe`, `xmlattr`, `urlize` (markup).
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cmp_to_key
from itertools import islice
from typing import Any
from urllib.parse import quote

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.limits import MAX_TEXT, spend, spend_text
from metaflow_agents.prompts.operations import (
    COMPARE,
    as_json,
    as_text,
    bounded,
    calculate,
    contains,
    cut,
    elements,
    equal,
    formatted,
    is_number,
    kind,
    made,
    no_such,
    orderable,
    path,
)
from metaflow_agents.prompts.predicates import TESTS
from metaflow_agents.prompts.values import MISSING

Filter = Callable[..., Any]
FILTERS: dict[str, Filter] = {}


def _filter(*names: str) -> Callable[[Filter], Filter]:
    def register(function: Filter) -> Filter:
        FILTERS.update(dict.fromkeys(names, function))
        return function
    return register


def _text(value: Any) -> str:
    text = as_text(value)
    spend_text(len(text))
    return text


def _whole(value: Any, what: str, low: int = 0, high: int = MAX_TEXT) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ExpressionError(f"{what} is a whole number from {low} to {high}")
    return value


def _sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, str) else elements(value)


# --- choosing and counting

@_filter("default", "d")
def default(value: Any, fallback: Any = "", boolean: bool = False) -> Any:
    """The fallback where the value is missing; with `boolean`, where it is falsy."""
    return fallback if value is MISSING or (boolean and not value) else value


@_filter("length", "count")
def length(value: Any) -> int:
    """How many items, fields, files or characters; 0 for what is missing."""
    if isinstance(value, str | list | tuple | range | Mapping) or value is MISSING:
        return len(value)
    raise ExpressionError(f"{kind(value)} has no length")


@_filter("first")
def first(value: Any) -> Any:
    """The first item; MISSING where there is none."""
    return next(iter(_sequence(value)), MISSING)


@_filter("last")
def last(value: Any) -> Any:
    """The last item; MISSING where there is none."""
    return next(iter(reversed(_sequence(value))), MISSING)


def _keyed(attribute: Any, fallback: Any = MISSING) -> Callable[[Any], Any]:
    if attribute is None:
        return lambda value: value
    return lambda value: default(path(value, attribute), fallback)


@_filter("min")
def least(value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    """The smallest item, by an attribute if one is named; MISSING of an empty list."""
    found = sort(value, False, case_sensitive, attribute)
    return found[0] if found else MISSING


@_filter("max")
def greatest(value: Any, case_sensitive: bool = False, attribute: Any = None) -> Any:
    """The largest item, by an attribute if one is named; MISSING of an empty list."""
    found = sort(value, True, case_sensitive, attribute)
    return found[0] if found else MISSING


@_filter("sum")
def total(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    """The sum of numbers."""
    key = _keyed(attribute)
    for number in elements(value):
        start = calculate("+", start, key(number))
    return start


# --- lists

@_filter("list")
def as_list(value: Any) -> list[Any]:
    """A list: of the items, of a mapping's keys, of a text's characters."""
    return list(_sequence(value))


@_filter("items")
def items(value: Any) -> list[Any]:
    """The pairs of key and value of a mapping, in its order."""
    if value is MISSING:
        return []
    if not isinstance(value, Mapping):
        raise ExpressionError(f"`items` takes a mapping, this is {kind(value)}")
    spend(len(value))
    return list(value.items())


@_filter("keys")
def keys(value: Any) -> list[Any]:
    """The keys of a mapping."""
    return [key for key, _ in items(value)]


@_filter("values")
def values(value: Any) -> list[Any]:
    """The values of a mapping."""
    return [inner for _, inner in items(value)]


def _order(left: list[Any], right: list[Any]) -> int:
    spend(1)
    for mine, other in zip(left, right, strict=True):
        if not equal(mine, other):
            return -1 if COMPARE["lt"](mine, other) else 1
        COMPARE["lteq"](mine, other)
    return 0


def _by_key(left: tuple[list[Any], Any], right: tuple[list[Any], Any]) -> int:
    return _order(left[0], right[0])


def _folded(value: Any, case_sensitive: bool) -> Any:
    return value.lower() if isinstance(value, str) and not case_sensitive else value


@_filter("sort")
def sort(value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: Any = None) -> list[Any]:
    """Sorted, stably, by the items or by attributes (`'size,name'`). Raises where values have no common order."""
    names: list[Any] = [None] if attribute is None else str(attribute).split(",") if isinstance(attribute, str) else [attribute]
    readers = [_keyed(name) for name in names]

    def key(entry: Any) -> list[Any]:
        return [_folded(orderable(read(entry)), case_sensitive) for read in readers]

    keyed: list[tuple[list[Any], Any]] = [(key(entry), entry) for entry in elements(value)]
    keyed.sort(key=cmp_to_key(_by_key), reverse=bool(reverse))
    return [entry for _, entry in keyed]


@_filter("dictsort")
def dictsort(value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False) -> list[Any]:
    """The pairs of a mapping, sorted by key or by value."""
    if by not in ("key", "value"):
        raise ExpressionError("`dictsort` sorts by `key` or by `value`")
    place = 0 if by == "key" else 1
    return list(sort(items(value), reverse, case_sensitive, place))


@_filter("reverse")
def reverse(value: Any) -> Any:
    """The text or list, backwards."""
    return value[::-1] if isinstance(value, str) else elements(value)[::-1]


@_filter("unique")
def unique(value: Any, case_sensitive: bool = False, attribute: Any = None) -> list[Any]:
    """Without repetitions; the first of each stays."""
    read = _keyed(attribute)
    seen: set[Any] = set()
    bulky: list[Any] = []
    kept = []
    for entry in elements(value):
        key = _folded(read(entry), case_sensitive)
        if isinstance(key, dict | list | tuple):
            if contains(bulky, key):
                continue
            bulky.append(key)
        elif (type(key) is bool, key) in seen:
            continue
        else:
            seen.add((type(key) is bool, key))
        kept.append(entry)
    return kept


@_filter("groupby")
def groupby(value: Any, attribute: Any, default: Any = MISSING, case_sensitive: bool = False) -> list[Any]:
    """Groups `{grouper, list}` by an attribute, sorted by it."""
    read = _keyed(attribute, default)
    groups: dict[Any, dict[str, Any]] = {}
    for entry in elements(value):
        key = read(entry)
        groups.setdefault(_folded(orderable(key), case_sensitive), {"grouper": key, "list": []})["list"].append(entry)
    return list(sort(list(groups.values()), False, case_sensitive, "grouper"))


@_filter("batch")
def batch(value: Any, linecount: int, fill_with: Any = None) -> list[Any]:
    """Lists of so many items each."""
    count = _whole(linecount, "the size of a batch", 1, 100_000)
    found = elements(value)
    batches = [found[at:at + count] for at in range(0, len(found), count)]
    if fill_with is not None and batches:
        spend(count)
        batches[-1] = batches[-1] + [fill_with] * (count - len(batches[-1]))
    return batches


@_filter("slice")
def columns(value: Any, slices: int, fill_with: Any = None) -> list[Any]:
    """The list in so many parts."""
    count = _whole(slices, "the number of slices", 1, 100_000)
    spend(count)
    found = elements(value)
    size, longer = divmod(len(found), count)
    parts, at = [], 0
    for index in range(count):
        end = at + size + (index < longer)
        parts.append(found[at:end] + ([fill_with] if fill_with is not None and longer and index >= longer else []))
        at = end
    return parts


@_filter("join")
def join(value: Any, separator: Any = "", attribute: Any = None) -> str:
    """The items as one text."""
    found, read, between = elements(value), _keyed(attribute), _text(separator)
    spend_text(len(between) * len(found))
    return between.join(_text(read(entry)) for entry in found)


@_filter("map")
def mapped(value: Any, name: Any = None, *args: Any, attribute: Any = None, default: Any = MISSING, **named: Any) -> list[Any]:
    """An attribute of each item, or another filter on each item."""
    if attribute is not None:
        return [_keyed(attribute, default)(entry) for entry in elements(value)]
    if not isinstance(name, str) or name not in FILTERS:
        raise ExpressionError(no_such("filter", str(name), FILTERS) + "; mend: `map(attribute='…')` or `map('filter')`")
    return [FILTERS[name](entry, *args, **named) for entry in elements(value)]


def _chosen(value: Any, read: Callable[[Any], Any], args: tuple[Any, ...], wanted: bool) -> list[Any]:
    if not args:
        return [entry for entry in elements(value) if bool(read(entry)) is wanted]
    name, *rest = args
    if not isinstance(name, str) or name not in TESTS:
        raise ExpressionError(no_such("test", str(name), TESTS))
    return [entry for entry in elements(value) if bool(TESTS[name](read(entry), *rest)) is wanted]


@_filter("select")
def select(value: Any, *args: Any) -> list[Any]:
    """The items that are truthy, or pass a test."""
    return _chosen(value, lambda entry: entry, args, True)


@_filter("reject")
def reject(value: Any, *args: Any) -> list[Any]:
    """The items that are falsy, or fail a test."""
    return _chosen(value, lambda entry: entry, args, False)


@_filter("selectattr")
def selectattr(value: Any, attribute: Any, *args: Any) -> list[Any]:
    """The items whose attribute is truthy, or passes a test."""
    return _chosen(value, _keyed(attribute), args, True)


@_filter("rejectattr")
def rejectattr(value: Any, attribute: Any, *args: Any) -> list[Any]:
    """The items whose attribute is falsy, or fails a test."""
    return _chosen(value, _keyed(attribute), args, False)


# --- numbers

@_filter("abs")
def absolute(value: Any) -> Any:
    """Without its sign."""
    if not is_number(value):
        raise ExpressionError(f"`abs` takes a number, this is {kind(value)}")
    return abs(value)


@_filter("round")
def rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
    """Rounded, `common`, `ceil` or `floor`, to so many places."""
    if not is_number(value) or method not in ("common", "ceil", "floor"):
        raise ExpressionError("`round` takes a number, and the method is `common`, `ceil` or `floor`")
    places = _whole(precision, "the precision", -300, 300)
    if method == "common":
        return bounded(round(value, places))
    factor = 10.0**places
    scaled = value * factor
    return bounded((scaled // 1 if method == "floor" else -(-scaled // 1)) / factor)


def _number(value: Any, fallback: Any, read: Callable[[Any], Any]) -> Any:
    if value is MISSING:
        raise ExpressionError("what is missing is no number; mend: `| default(0)` before it")
    try:
        return bounded(read(value))
    except (TypeError, ValueError, OverflowError):
        return fallback


@_filter("int")
def integer(value: Any, default: Any = 0, base: int = 10) -> Any:
    """A whole number, or the default where it can't be read."""
    if isinstance(value, str):
        return _number(value, default, lambda text: int(text, base) if base != 10 or "." not in text else int(float(text)))
    return _number(value, default, int)


@_filter("float")
def floating(value: Any, default: Any = 0.0) -> Any:
    """A number, or the default where it can't be read."""
    return _number(value, default, float)


@_filter("filesizeformat")
def filesize(value: Any, binary: bool = False) -> str:
    """A size in bytes, for people: `13 kB`."""
    if not is_number(value):
        raise ExpressionError(f"`filesizeformat` takes a number, this is {kind(value)}")
    base, size = (1024 if binary else 1000), float(value)
    for unit in ("Bytes", "KiB" if binary else "kB", "MiB" if binary else "MB", "GiB" if binary else "GB"):
        if abs(size) < base:
            return f"{size:.0f} {unit}" if unit == "Bytes" else f"{size:.1f} {unit}"
        size /= base
    return f"{size:.1f} {'TiB' if binary else 'TB'}"


# --- text

def _on_text(name: str, change: Callable[[str], str]) -> None:
    def apply(value: Any) -> str:
        return change(_text(value))
    apply.__doc__ = f"The text in {name} form."
    FILTERS[name] = apply


_CHANGES: dict[str, Callable[[str], str]] = {
    "lower": str.lower, "upper": str.upper, "capitalize": str.capitalize, "string": str,
    "title": lambda text: re.sub(r"\S+", lambda word: word[0].capitalize(), text),
    "escape": html.escape, "e": html.escape, "urlencode": lambda text: quote(text, safe="/"),
}
for _name, _change in _CHANGES.items():
    _on_text(_name, _change)


@_filter("trim")
def trim(value: Any, characters: str | None = None) -> str:
    """Without space (or those characters) at both ends."""
    return _text(value).strip(characters)


@_filter("lines")
def lines(value: Any) -> list[str]:
    """The lines of a text."""
    found = _text(value).splitlines()
    spend(len(found))
    return found


@_filter("split")
def split(value: Any, separator: str | None = None, limit: int = -1) -> list[str]:
    """The parts of a text between separators, or between spaces."""
    if separator == "":
        raise ExpressionError("the separator of `split` is empty; mend: `| list` gives the characters")
    found = _text(value).split(separator, limit)
    spend(len(found))
    return found


@_filter("wordcount")
def wordcount(value: Any) -> int:
    """How many words."""
    return len(re.findall(r"\w+", _text(value)))


@_filter("replace")
def replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    """Every occurrence (or the first so many) of a text replaced."""
    text, old, new = _text(value), _text(old), _text(new)
    found = text.count(old)
    spend_text(len(text) + max(len(new) - len(old), 0) * (found if count is None or count < 0 else min(found, count)))
    return text.replace(old, new, -1 if count is None else count)


@_filter("center")
def center(value: Any, width: int = 80) -> str:
    """In the middle of so many characters."""
    spend_text(_whole(width, "the width"))
    return _text(value).center(width)


@_filter("indent")
def indent(value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    """Every line but the first indented by so many spaces, or by a text."""
    margin = width if isinstance(width, str) else " " * _whole(width, "an indent", 0, 1000)
    text = _text(value)
    spend_text(len(text) + len(margin) * (text.count("\n") + 1))
    head, *rest = text.split("\n")
    moved = [margin + line if line or blank else line for line in rest]
    return "\n".join([margin + head if first else head, *moved])


@_filter("wordwrap")
def wordwrap(
    value: Any, width: int = 79, break_long_words: bool = True, wrapstring: str = "\n", break_on_hyphens: bool = True,
) -> str:
    """Broken into lines of so many characters."""
    text, size = _text(value), _whole(width, "the width", 1)
    longest = max(map(len, text.split()), default=0)
    spend(len(text) // 4 + longest * longest // (size * 2000))        # a long word is copied once for every line of it
    wrapped = [line for paragraph in text.splitlines()
               for line in textwrap.wrap(paragraph, size, expand_tabs=False, replace_whitespace=False,
                                         break_long_words=break_long_words, break_on_hyphens=break_on_hyphens) or [""]]
    spend_text(len(text) + len(wrapped) * len(_text(wrapstring)))
    return _text(wrapstring).join(wrapped)


@_filter("truncate")
def truncate(value: Any, size: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5) -> str:
    """At most so many characters, ended by `...`, cut between words."""
    text, most = _text(value), _whole(size, "the size", len(end))
    if len(text) <= most + leeway:
        return text
    kept = text[:most - len(end)]
    return (kept if killwords else kept.rsplit(" ", 1)[0]) + end


@_filter("format")
def format_text(value: Any, *args: Any, **named: Any) -> str:
    """Printf formatting: `'%s has %d' | format(name, count)`."""
    if not isinstance(value, str):
        raise ExpressionError(f"`format` takes a text, this is {kind(value)}")
    return formatted(value, args, named)


@_filter("tojson", "json")
def tojson(value: Any, indent: int | None = None) -> str:
    """JSON, in the order of the fields; `indent=2` over several lines."""
    return as_json(value, indent)


# --- operations that the compiler puts in the place of Jinja2's own; their names can't be written in a template

def _compare(value: Any, *pairs: Any) -> bool:
    spend(1)
    for name, right in zip(islice(pairs, 0, None, 2), islice(pairs, 1, None, 2), strict=True):
        if not COMPARE[name](value, right):
            return False
        value = right
    return True


def _joined(value: Any, *rest: Any) -> str:
    return "".join(_text(part) for part in (value, *rest))


def _walked(value: Any, weight: int) -> list[Any]:
    found = elements(value)
    spend(len(found) * weight)
    return found


def _spent(weight: int) -> str:
    spend(weight)
    return ""


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """The pairs of a written mapping; keys must be texts."""
    for key, inner in value.items():
        if not isinstance(key, str):
            raise ExpressionError(f"the keys of a mapping are texts, this one is {kind(key)}")
        yield key, inner


INTERNAL: dict[str, Filter] = {
    "$compare": _compare, "$join": _joined, "$each": _walked, "$cut": cut, "$made": made, "$spend": _spent,
    "$missing": lambda _: MISSING, "$pairs": lambda value: dict(_pairs(value)),
}
