"""Metrics of a run, from the spans that end: sums since it began, so that sending one again counts nothing twice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from metaflow_agents.schema.event import Settled
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.names import MetricName
from metaflow_agents.views.spans.open import Open
from metaflow_agents.views.spans.span import Attribute

_PICO = 10**12
_OF_CALLS = (names.OPERATION, names.PROVIDER, names.MODEL, names.ADDRESS, names.PORT)
Labels = tuple[tuple[str, Attribute], ...]


@dataclass(slots=True)
class Histogram:
    """How often which figure came about. `counts` has one bucket more than there are bounds."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, figure: float) -> None:
        """One more."""
        if not self.counts:
            self.counts, self.least, self.most = [0] * (len(self.bounds) + 1), figure, figure
        self.counts[bisect_left(self.bounds, figure)] += 1
        self.total += figure
        if figure < self.least:
            self.least = figure
        elif figure > self.most:
            self.most = figure

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


class Point(NamedTuple):
    """A metric as it stands, for one set of attributes."""

    metric: MetricName
    labels: Labels
    value: Histogram | int | float


class Meters:
    """What is counted of a run. `began` is Unix time: from then on it counts."""

    def __init__(self) -> None:
        self.began = 0.0
        self._histograms: dict[str, dict[Labels, Histogram]] = {}       # by the metric's name
        self._sums: dict[str, dict[Labels, int]] = {}
        self._labels: dict[tuple[object, ...], Labels] = {}

    def begin(self, at: float) -> None:
        """It counts from here on, unless it does already."""
        self.began = self.began or at

    def points(self) -> Iterator[Point]:
        """All that is counted."""
        for metric in names.METRICS:
            for labels, histogram in self._histograms.get(metric.name, {}).items():
                yield Point(metric, labels, histogram)
            for labels, value in self._sums.get(metric.name, {}).items():
                yield Point(metric, labels, value / _PICO if metric is names.SPENT else value)

    def call(self, call: Open, seconds: float, error: str) -> None:
        """A model call is over."""
        embeds = call.attributes[names.OPERATION] == names.EMBEDDINGS
        metric = names.EMBEDDINGS_DURATION if embeds else names.INFERENCE_DURATION
        self._record(metric, _with_error(self._of(call), error), seconds)
        if call.owner is not None and not embeds:
            call.owner.calls += 1

    def spent(self, call: Open, event: Settled) -> None:
        """A try at a model call came back."""
        labels = self._of(call)
        if call.attributes[names.OPERATION] == names.CHAT:
            self._count(names.INFERENCE_INPUT, labels, event.tokens_in)
            self._count(names.INFERENCE_OUTPUT, labels, event.tokens_out)
            self._count(names.INFERENCE_CACHED, labels, event.tokens_cached)
        self._count(names.SPENT, labels, event.cost)

    def tool(self, call: Open, seconds: float, error: str) -> None:
        """A tool call is over."""
        told: Labels = ((names.OPERATION, names.EXECUTE_TOOL), (names.TOOL, call.attributes.get(names.TOOL, "unknown")))
        self._record(names.TOOL_DURATION, _with_error(told, error), seconds)
        if call.owner is not None:
            call.owner.tools += 1

    def activation(self, one: Open, seconds: float, error: str) -> None:
        """An activation is over: only those of roles are counted. `seconds` leaves out what it rested."""
        if one.attributes.get(names.OPERATION) != names.INVOKE_AGENT or names.REUSED in one.attributes:
            return
        told: Labels = ((names.OPERATION, names.INVOKE_AGENT), (names.AGENT, one.attributes.get(names.AGENT, "unknown")))
        self._record(names.AGENT_DURATION, _with_error(told, error), seconds)
        self._record(names.AGENT_CALLS, told, one.calls)
        self._record(names.AGENT_TOOLS, told, one.tools)

    def workflow(self, flow: Open, seconds: float, error: str) -> None:
        """The run rests."""
        told: Labels = ((names.OPERATION, names.INVOKE_WORKFLOW), (names.AGENT, flow.attributes[names.AGENT]))
        self._record(names.AGENT_DURATION, _with_error(told, error), seconds)

    def question(self, seconds: float) -> None:
        """A person answered."""
        self._record(names.QUESTION_DURATION, (), seconds)

    def _of(self, call: Open) -> Labels:
        told = call.attributes
        key = told[names.OPERATION], told[names.PROVIDER], told[names.MODEL]
        found = self._labels.get(key)
        if found is None:
            found = self._labels[key] = tuple((name, told[name]) for name in _OF_CALLS if name in told)
        return found

    def _record(self, metric: MetricName, labels: Labels, figure: float) -> None:
        held = self._histograms.setdefault(metric.name, {})
        found = held.get(labels)
        if found is None:
            found = held[labels] = Histogram(metric.bounds)
        found.add(figure if figure > 0.0 else 0.0)

    def _count(self, metric: MetricName, labels: Labels, more: int) -> None:
        if more:
            held = self._sums.setdefault(metric.name, {})
            held[labels] = held.get(labels, 0) + more


def _with_error(labels: Labels, error: str) -> Labels:
    return (*labels, (names.ERROR, error)) if error else labels
