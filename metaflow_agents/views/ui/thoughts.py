"""How the calls of a strategy hang together: a tree by their branches, and of a tree of thoughts what was thought and chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from metaflow_agents.schema.keys import innermost
from metaflow_agents.views.ui.texts import first_line

_FOLLOWS = re.compile(r"(?:turn|step|repair|more|check|review)\.\d+")   # one more call of the same conversation
_NOTED = re.compile(r"tot\.d(\d+)(?:\.n(\d+))?")
_THOUGHT = re.compile(r"(tot\.d\d+\.n\d+)\.(.*)")
_MOST = 1_000


def branch_of(rest: str) -> str:
    """The branch of a call, from what stands behind its activation: `plan.0`, `debater.1/round.0`; empty: the main one."""
    return "/".join(word for word in rest.split("/") if not _FOLLOWS.fullmatch(word))


def thoughts(calls: Sequence[str], observed: Iterable[tuple[int, Mapping[str, Any]]],
             value: Callable[[str], Any]) -> list[dict[str, Any]]:
    """The tree of one activation's calls (their keys), with what its strategy noted; nothing where there is one branch alone.

    `value` gives the data of a payload by its digest.
    """
    noted = [one for _, event in observed for one in _noted(event, value, calls)]
    if noted:
        return noted[:_MOST]
    found: dict[str, dict[str, Any]] = {}
    for key in calls:
        branch = branch_of(innermost(key)[1])
        words = branch.split("/") if branch else []
        for depth in range(1, len(words) + 1):
            name = "/".join(words[:depth])
            node = found.setdefault(name, {
                "branch": name, "parent": "/".join(words[:depth - 1]) or None, "told": words[depth - 1], "key": None,
                "value": None, "kept": True, "depth": depth, "calls": 0})
            node["calls"] += 1
            if depth == len(words) and node["key"] is None:
                node["key"] = key
    return list(found.values())[:_MOST] if found else []


def _noted(event: Mapping[str, Any], value: Callable[[str], Any], calls: Sequence[str]) -> Iterable[dict[str, Any]]:
    """The thoughts of one depth of a tree of thoughts, or those that go on from one of them."""
    _, rest = innermost(event["key"])
    place = _NOTED.fullmatch(rest.rpartition("/")[2])
    if place is None:
        return
    told = value(event["payload"])
    depth = int(place[1]) + (1 if place[2] else 0)
    made_by: dict[str, str] = {}
    for key in calls:
        thought = _THOUGHT.fullmatch(innermost(key)[1].rpartition("/")[2])
        if thought is not None and thought[2].startswith(("propose", "sample")):
            made_by.setdefault(thought[1], key)
    for one in told.get("thoughts", ()):
        above = f"tot.d{depth - 1}.n{one['from']}"
        yield {"branch": f"tot.d{depth}.n{one['n']}", "parent": above if depth > 1 else None, "told": first_line(one["thought"]),
               "key": made_by.get(above), "value": one["value"], "kept": one["n"] in told.get("selected", ()), "depth": depth,
               "duplicate": bool(one.get("duplicate"))}
