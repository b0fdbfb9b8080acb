"""Filters that choose, count, order and regroup: what lists, mappings and texts are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.filter_making import Filter, registering, spent_text, whole
from metaflow_agents.prompts.limits import spend, spend_text
from metaflow_agents.prompts.operations import COMPARE, calculate, contains, elements, equal, kind, no_such, orderable, path
from metaflow_agents.prompts.predicates import TESTS
from metaflow_agents.prompts.values import MISSING

LIST_FILTERS: dict[str, Filter] = {}
"""By name; `map`, which may name any filter, stands beside the whole table."""
_filter = registering(LIST_FILTERS)


def _sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, str) else elements(value)


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


def by_attribute(attribute: Any, fallback: Any = MISSING) -> Callable[[Any], Any]:
    """Reads an attribute of an item, with the fallback where it is missing; where none is named, gives the item."""
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
    key = by_attribute(attribute)
    for number in elements(value):
        start = calculate("+", start, key(number))
    return start


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
    readers = [by_attribute(name) for name in names]

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
    read = by_attribute(attribute)
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
    read = by_attribute(attribute, default)
    groups: dict[Any, dict[str, Any]] = {}
    for entry in elements(value):
        key = read(entry)
        groups.setdefault(_folded(orderable(key), case_sensitive), {"grouper": key, "list": []})["list"].append(entry)
    return list(sort(list(groups.values()), False, case_sensitive, "grouper"))


@_filter("batch")
def batch(value: Any, linecount: int, fill_with: Any = None) -> list[Any]:
    """Lists of so many items each."""
    count = whole(linecount, "the size of a batch", 1, 100_000)
    found = elements(value)
    batches = [found[at:at + count] for at in range(0, len(found), count)]
    if fill_with is not None and batches:
        spend(count)
        batches[-1] = batches[-1] + [fill_with] * (count - len(batches[-1]))
    return batches


@_filter("slice")
def columns(value: Any, slices: int, fill_with: Any = None) -> list[Any]:
    """The list in so many parts."""
    count = whole(slices, "the number of slices", 1, 100_000)
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
    found, read, between = elements(value), by_attribute(attribute), spent_text(separator)
    spend_text(len(between) * len(found))
    return between.join(spent_text(read(entry)) for entry in found)


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
    return _chosen(value, by_attribute(attribute), args, True)


@_filter("rejectattr")
def rejectattr(value: Any, attribute: Any, *args: Any) -> list[Any]:
    """The items whose attribute is falsy, or fails a test."""
    return _chosen(value, by_attribute(attribute), args, False)
