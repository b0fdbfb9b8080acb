"""The list that a `foreach` walks: its items, their keys, and what comes after what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.engine.work import Item
from metaflow_agents.errors import AnswerInvalid, did_you_mean
from metaflow_agents.prompts import MISSING, evaluate, truthy
from metaflow_agents.schema.step import Foreach


def walk(foreach: Foreach, scope: Mapping[str, Any]) -> list[Item]:
    """The items of a list in its order, `where` applied.

    Raises AnswerInvalid with every fault of the list: it is no list, a key is no text, empty or doubled, an `after`
    names no key or goes in a circle. A key that `where` left out is known, and nobody waits for it.
    """
    listed = evaluate(foreach.in_, scope)
    if listed is MISSING:
        return []
    if not isinstance(listed, list):
        raise AnswerInvalid([f"`{foreach.in_}` must be a list to walk over, and is {_kind(listed)}"])
    faults: list[str] = []
    items: list[Item] = []
    known: dict[str, int] = {}
    for place, value in enumerate(listed):
        local = {**scope, "item": value, foreach.as_: value}
        key = evaluate(foreach.key, local) if foreach.key else value
        if not isinstance(key, str) or not key:
            faults.append(f"`{foreach.in_}`[{place}]: its key must be a text that is not empty, and is {_kind(key)}")
            continue
        if key in known:
            faults.append(f"`{foreach.in_}`[{place}]: key {key!r} stands already at [{known[key]}]; keys are unique")
            continue
        known[key] = place
        local["key"] = key
        after = _after(foreach, local, f"`{foreach.in_}`[{place}]", faults)
        if foreach.where is None or truthy(evaluate(foreach.where, local)):
            items.append(Item(key, value, after))
    for item in items:
        faults += [f"{item.key!r} comes after {other!r}, which is no key of `{foreach.in_}`: {did_you_mean(other, known)}"
                   for other in item.after if other not in known]
    faults += _circles(items)
    if faults:
        raise AnswerInvalid(faults)
    picked = {item.key for item in items}
    return [Item(item.key, item.value, tuple(k for k in item.after if k in picked)) for item in items]


def before(key: str, direct: Mapping[str, tuple[str, ...]]) -> set[str]:
    """All keys that an item transitively comes after. `direct`: key → the keys that its `after` names."""
    found: set[str] = set()
    open_ends = [key]
    while open_ends:
        new = set(direct[open_ends.pop()]) - found
        found |= new
        open_ends.extend(new)
    return found


def _after(foreach: Foreach, local: Mapping[str, Any], place: str, faults: list[str]) -> tuple[str, ...]:
    if foreach.after is None:
        return ()
    after = evaluate(foreach.after, local)
    if after is MISSING or after is None:
        return ()
    if isinstance(after, str):
        return (after,)
    if isinstance(after, list) and all(isinstance(key, str) for key in after):
        return tuple(dict.fromkeys(after))
    faults.append(f"{place}: `{foreach.after}` must be a list of keys, and is {_kind(after)}")
    return ()


def _circles(items: list[Item]) -> list[str]:
    """Kahn's algorithm: what is left when nothing more is free waits for itself."""
    picked = {item.key for item in items}
    waiting = {item.key: len(set(item.after) & picked) for item in items}
    dependents: dict[str, list[str]] = {}
    for item in items:
        for key in set(item.after) & picked:
            dependents.setdefault(key, []).append(item.key)
    free = [key for key, count in waiting.items() if not count]
    while free:
        key = free.pop()
        del waiting[key]
        for dependent in dependents.get(key, ()):
            waiting[dependent] -= 1
            if not waiting[dependent]:
                free.append(dependent)
    return [f"items wait for each other in a circle: {', '.join(map(repr, circle))}"
            for circle in _rings({item.key: item.after for item in items if item.key in waiting})]


def _rings(after: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """A circle for each group of items that wait for each other, in the order of the list. `after` holds what waits for ever:
    that which only waits for a circle is left out.
    """
    found = []
    left = dict(after)
    while left:
        trail: list[str] = []
        key = next(iter(left))
        while key not in trail:
            trail.append(key)
            key = next((other for other in left[key] if other in left), "")
            if not key:                              # it only waited for a circle that was told
                break
        ring = set(trail[trail.index(key):]) if key else set()
        if ring:
            found.append([one for one in after if one in ring])
        for one in ring or {trail[-1]}:
            del left[one]
    return found


def _kind(value: Any) -> str:
    if value is MISSING or value is None:
        return "missing"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    kind = next((name for type_, name in names.items() if type(value) is type_), "an object")
    shown = repr(value)
    return f"{kind} ({shown if len(shown) <= 60 else shown[:57] + '…'})"
