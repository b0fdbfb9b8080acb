"""The filters of expressions and templates: deterministic, bounded, by item lookup only.

Left out on purpose: `attr` (Python attributes), `random`, `pprint` (addresses), `safe`, `xmlattr`, `urlize` (markup).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.filter_making import Filter, spent_text
from metaflow_agents.prompts.limits import spend
from metaflow_agents.prompts.list_filters import LIST_FILTERS, by_attribute
from metaflow_agents.prompts.number_filters import NUMBER_FILTERS
from metaflow_agents.prompts.operations import COMPARE, cut, elements, kind, made, no_such, unprintable
from metaflow_agents.prompts.text_filters import TEXT_FILTERS
from metaflow_agents.prompts.values import MISSING

FILTERS: dict[str, Filter] = {**LIST_FILTERS, **NUMBER_FILTERS, **TEXT_FILTERS}


def mapped(value: Any, name: Any = None, *args: Any, attribute: Any = None, default: Any = MISSING, **named: Any) -> list[Any]:
    """An attribute of each item, or another filter on each item."""
    if attribute is not None:
        return [by_attribute(attribute, default)(entry) for entry in elements(value)]
    if not isinstance(name, str) or name not in FILTERS:
        raise ExpressionError(no_such("filter", str(name), FILTERS) + "; fix: `map(attribute='…')` or `map('filter')`")
    return [FILTERS[name](entry, *args, **named) for entry in elements(value)]


FILTERS["map"] = mapped


# --- operations that the compiler puts in the place of Jinja2's own; their names can't be written in a template

def _compare(value: Any, *pairs: Any) -> bool:
    spend(1)
    for name, right in zip(islice(pairs, 0, None, 2), islice(pairs, 1, None, 2), strict=True):
        if not COMPARE[name](value, right):
            return False
        value = right
    return True


def _joined(value: Any, *rest: Any) -> str:
    return "".join(spent_text(part) for part in (value, *rest))


def _named(value: Any, name: str) -> Any:
    if value is MISSING:
        raise unprintable(f"`{name}` is missing, and ")
    return value


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
    "$named": _named,    "$missing": lambda _: MISSING, "$pairs": lambda value: dict(_pairs(value)),
}
