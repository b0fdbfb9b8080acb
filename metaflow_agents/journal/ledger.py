"""What a run cost, line by line: which step, role, model, item and key. A pure fold of its reserved and settled calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from metaflow_agents.journal.records import Spending
from metaflow_agents.schema.event import Reserved, Settled
from metaflow_agents.schema.keys import activations_in

K = TypeVar("K")
Dimension = Literal["step", "role", "model", "item", "key"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
KINDS = ("reserved", "settled")
"""The events that it is a fold of."""


class Line(NamedTuple):
    """Whose a cost is. Of a sub-SOP `step` is the way to its step, `write/draft`, and `item` all items on it, `write[b]/draft`.

    `key` is that of the outermost of these items, `b`: what one row, file or chapter cost, whichever steps worked on it. Both are
    empty where no step on the way has items.
    """

    step: str
    role: str
    model: str
    item: str
    key: str


@dataclass(slots=True)
class Ledger:
    """Costs in the order in which they first came up: by line, and the sums, which are kept since a live view asks often.

    `by`: dimension → name → sum; what belongs to no item or key stands under the empty text. `total` is that of the whole run.
    """

    total: Spending = field(default_factory=Spending)
    lines: dict[Line, Spending] = field(default_factory=dict)
    by: dict[Dimension, dict[str, Spending]] = field(default_factory=lambda: {dimension: {} for dimension in DIMENSIONS})
    _open: dict[tuple[str, int], tuple[Reserved, list[Spending]]] = field(default_factory=dict)

    def apply(self, event: Reserved | Settled) -> None:
        """One more of the run's events."""
        if isinstance(event, Reserved):
            sums = self._of(event)
            self._open[event.key, event.try_] = event, sums
            for spending in sums:
                spending.reserve(event)
        else:
            asked, sums = self._open.pop((event.key, event.try_))
            for spending in sums:
                spending.settle(event, asked.tokens, asked.cost, unpriced=asked.unpriced)

    def take(self, events: Iterable[tuple[int, Mapping[str, Any]]]) -> int:
        """Rows of a journal, those of KINDS. The number of the last one; 0 where there was none."""
        last = 0
        for last, event in events:                                              # noqa: B007
            self.apply((Reserved if event["kind"] == "reserved" else Settled).model_validate(event))
        return last

    def _of(self, asked: Reserved) -> list[Spending]:
        """All sums that a call belongs to."""
        line = _line(asked)
        named = [_sum(sums, getattr(line, dimension)) for dimension, sums in self.by.items()]
        return [self.total, _sum(self.lines, line), *named]

    def as_json(self) -> dict[str, Any]:
        """What `sop show --costs --json` prints: money in US dollars."""
        sums = {f"{dimension}s": {name: told(one) for name, one in by.items() if name} for dimension, by in self.by.items()}
        return {"total": told(self.total), **sums,
                "lines": [{**line._asdict(), **told(one)} for line, one in self.lines.items()]}


def ledger(events: Iterable[tuple[int, Mapping[str, Any]]]) -> Ledger:
    """The ledger of a journal's rows, those of KINDS."""
    found = Ledger()
    found.take(events)
    return found


def told(one: Spending) -> dict[str, Any]:
    """A cost as JSON."""
    return {"calls": one.calls, "tokens": one.tokens, "tokens_in": one.tokens - one.out, "tokens_out": one.out,
            "tokens_cached": one.cached, "cost": one.cost / 10**12, "estimated": one.estimated > 0, "unpriced": one.unpriced,
            "unanswered": {"calls": one.open_calls, "tokens": one.open_tokens, "cost": one.open_cost / 10**12}}


def _sum(sums: dict[K, Spending], name: K) -> Spending:
    found = sums.get(name)
    if found is None:
        found = sums[name] = Spending()
    return found


def _line(event: Reserved) -> Line:
    way = activations_in(event.key)
    key = next((one.item for one in way if one.item is not None), None)
    return Line("/".join(one.step for one in way), event.role, event.model,
                "" if key is None else "/".join(one.step if one.item is None else f"{one.step}[{one.item}]" for one in way),
                key or "")
