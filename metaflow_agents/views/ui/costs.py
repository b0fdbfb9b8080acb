"""What a run cost, for a page: the sums of each dimension, of very many the most expensive."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from typing import Any

from metaflow_agents.journal.ledger import DIMENSIONS, Ledger, told
from metaflow_agents.journal.records import Spending
from metaflow_agents.views.ui.texts import line

_MOST = 100                         # names of a dimension


def costs_told(ledger: Ledger) -> dict[str, Any]:
    """`total`, and for each dimension `steps`, `roles`, …: name → cost; `left_out`: how many names are not among them."""
    found: dict[str, Any] = {"total": told(ledger.total)}
    left_out: dict[str, int] = {}
    for dimension in DIMENSIONS:
        named = {name: one for name, one in ledger.by[dimension].items() if name}
        found[f"{dimension}s"] = _dearest(named)
        if len(named) > _MOST:
            left_out[f"{dimension}s"] = len(named) - _MOST
    return {**found, "left_out": left_out}


def _dearest(sums: Mapping[str, Spending]) -> dict[str, Any]:
    """In their order where all are told, else the most expensive first."""
    names = list(sums) if len(sums) <= _MOST else nlargest(
        _MOST, sums, key=lambda name: (sums[name].cost + sums[name].open_cost, sums[name].tokens + sums[name].open_tokens))
    return {line(name): told(sums[name]) for name in names}
