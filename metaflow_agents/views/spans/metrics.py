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
_MOST = 10_000              # figures that are kept before they are sorted into their buckets
_OF_CALLS = (names.OPERATION, names.PROVIDER, names.MODEL, names.ADDRESS, names.PORT)
Labels = tuple[tuple[str, Attribute], ...]


@dataclass(slots=True)
class Histogram:
    """How often which figure came about. `counts` has one bucket more than there are bounds. Figures are sorted into them when
    somebody asks, or when there are many: most of a run nobody does.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    _figures: list[float] = field(default_factory=list)

    def add(self, figure: float) -> None:
        """One more."""
        self._figures.append(figure)
        if len(self._figures) >= _MOST:
            self.settle()

    def settle(self) -> None:
        """Sorts what was added into the buckets."""
        figures = self._figures
        if not figures:
            return
        least, most = min(figures), max(figures)
        self.least, self.most = (min(self.least, least), max(self.most, most)) if self.counts else (least, most)
        self.counts = self.counts or [0] * (len(self.bounds) + 1)
        for figure in figures:
            self.counts[bisect_left(self.bounds, figure)] += 1
        self.total += sum(figures)
        figures.clear()

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


class Point(NamedTuple):
    """A metric as it stands, for one set of attributes."""

    metric: MetricName
    labels: Labels
    value: Histogram | int | float


@dataclass(slots=True)
class _Spent:
    """What calls of one model took."""

    labels: Labels
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    cost: int = 0


class Meters:
    """What is counted of a run. `began` is Unix time: from then on it counts."""

    def __init__(self) -> None:
        self.began = 0.0
        self._histograms: dict[tuple[str, Labels], Histogram] = {}          # by the metric's name
        self._known: dict[tuple[object, ...], Histogram] = {}               # the same, by what is quickly put together
        self._spent: dict[tuple[object, ...], _Spent] = {}

    def begin(self, at: float) -> None:
        """It counts from here on, unless it does already."""
        self.began = self.began or at

    def points(self) -> Iterator[Point]:
        """All that is counted."""
        by_name = {metric.name: metric for metric in names.METRICS}
        for (name, labels), histogram in self._histograms.items():
            histogram.settle()
            yield Point(by_name[name], labels, histogram)
        for spent in self._spent.values():
            for metric, value in ((names.INFERENCE_INPUT, spent.tokens_in), (names.INFERENCE_OUTPUT, spent.tokens_out),
                                  (names.INFERENCE_CACHED, spent.cached)):
                if value and dict(spent.labels)[names.OPERATION] == names.CHAT:
                    yield Point(metric, spent.labels, value)
            if spent.cost:
                yield Point(names.SPENT, spent.labels, spent.cost / _PICO)

    def call(self, call: Open, seconds: float, error: str) -> None:
        """A model call is over."""
        told = call.attributes
        embeds = told[names.OPERATION] == names.EMBEDDINGS
        found = self._known.get(key := (told[names.OPERATION], told[names.PROVIDER], told[names.MODEL], error))
        if found is None:
            metric = names.EMBEDDINGS_DURATION if embeds else names.INFERENCE_DURATION
            found = self._known[key] = self._of(metric, _with_error(_labels(call), error))
        found.add(seconds)
        if call.owner is not None and not embeds:
            call.owner.calls += 1

    def spent(self, call: Open, event: Settled) -> None:
        """A try at a model call came back."""
        told = call.attributes
        found = self._spent.get(key := (told[names.OPERATION], told[names.PROVIDER], told[names.MODEL]))
        if found is None:
            found = self._spent[key] = _Spent(_labels(call))
        found.tokens_in += event.tokens_in
        found.tokens_out += event.tokens_out
        found.cached += event.tokens_cached
        found.cost += event.cost

    def tool(self, call: Open, seconds: float, error: str) -> None:
        """A tool call is over."""
        told: Labels = ((names.OPERATION, names.EXECUTE_TOOL), (names.TOOL, call.attributes.get(names.TOOL, "unknown")))
        self._of(names.TOOL_DURATION, _with_error(told, error)).add(seconds)
        if call.owner is not None:
            call.owner.tools += 1

    def activation(self, one: Open, seconds: float, error: str) -> None:
        """An activation is over: only those of roles are counted. `seconds` leaves out what it rested."""
        told = one.attributes
        if told.get(names.OPERATION) != names.INVOKE_AGENT or names.REUSED in told:
            return
        agent = told.get(names.AGENT, "unknown")
        for metric, figure, wrong in ((names.AGENT_DURATION, seconds, error), (names.AGENT_CALLS, one.calls, ""),
                                      (names.AGENT_TOOLS, one.tools, "")):
            found = self._known.get(key := (metric.name, agent, wrong))
            if found is None:
                labels: Labels = ((names.OPERATION, names.INVOKE_AGENT), (names.AGENT, agent))
                found = self._known[key] = self._of(metric, _with_error(labels, wrong))
            found.add(figure)

    def workflow(self, flow: Open, seconds: float, error: str) -> None:
        """The run rests."""
        told: Labels = ((names.OPERATION, names.INVOKE_WORKFLOW), (names.AGENT, flow.attributes[names.AGENT]))
        self._of(names.AGENT_DURATION, _with_error(told, error)).add(seconds)

    def question(self, seconds: float) -> None:
        """A person answered."""
        self._of(names.QUESTION_DURATION, ()).add(seconds)

    def _of(self, metric: MetricName, labels: Labels) -> Histogram:
        found = self._histograms.get((metric.name, labels))
        if found is None:
            found = self._histograms[metric.name, labels] = Histogram(metric.bounds)
        return found


def _labels(call: Open) -> Labels:
    told = call.attributes
    return tuple([(name, told[name]) for name in _OF_CALLS if name in told])


def _with_error(labels: Labels, error: str) -> Labels:
    return (*labels, (names.ERROR, error)) if error else labels
