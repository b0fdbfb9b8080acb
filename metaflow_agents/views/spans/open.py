"""Spans that have begun and not ended, and how they lie in each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from metaflow_agents.schema.keys import Place
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.identity import span_id
from metaflow_agents.views.spans.span import Attributes, Kind, Span, SpanEvent

MOST_EVENTS = 128
"""Events of a span, as the SDKs of OpenTelemetry have it; of what comes after these only the count is told."""
_COMMON = (names.CONVERSATION, names.STEP_NAME)


@dataclass(slots=True, eq=False)
class Open:
    """A span under way. `place`: of firings and activations. `owner`: the activation to which a call belongs. `wrapper`: the span
    around a call, which ends with it. `over`: when an activation ended whose `committed` has still to come; `under`: how many
    calls are under way in it. Tokens and `cost` (picodollars) are sums.
    """

    key: str
    id: bytes
    parent: bytes
    name: str
    start: float
    attributes: Attributes
    home: dict[str, Open]
    kind: Kind = "internal"
    place: Place | None = None
    owner: Open | None = None
    wrapper: Open | None = None
    link: tuple[bytes, bytes] | None = None
    common: Attributes = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    dropped: int = 0
    over: float = 0.0
    under: int = 0
    tries: int = 1
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    calls: int = 0
    tools: int = 0

    @property
    def activation(self) -> Open:
        """The activation that it is, or belongs to."""
        return self if self.owner is None else self.owner

    def tell(self, name: str, at: float, attributes: Attributes) -> None:
        """One more event of the span."""
        if len(self.events) < MOST_EVENTS:
            self.events.append(SpanEvent(name, at, attributes))
        else:
            self.dropped += 1


class OpenSpans:
    """Begins spans and ends them. `number` is that of the event that is taken in, `flow` the span of the sitting.

    `children` are calls of models and tools, and what goes around them, by key.
    """

    def __init__(self) -> None:
        self.trace, self.root, self.number = b"", b"", 0
        self.flow: Open | None = None
        self.firings: dict[str, Open] = {}
        self.activations: dict[str, Open] = {}
        self.children: dict[str, Open] = {}
        self._flows: dict[str, Open] = {}
        self._ended: list[Span] = []

    def begin(self, trace: bytes) -> None:
        """A trace."""
        self.trace, self.root = trace, b""

    def sit_down(self, name: str, at: float, attributes: Attributes) -> Open:
        """The span of a sitting; the first is the trace's root."""
        self.flow = self._flows[""] = Open("", span_id(self.trace, self.number, ""), self.root, name, at, attributes, self._flows)
        self.root = self.root or self.flow.id
        return self.flow

    def rest(self, at: float, error: str) -> None:
        """All that is under way in the sitting ends, the innermost first; the sitting itself does not."""
        for held in (self.children, self.activations, self.firings):
            for one in sorted(held.values(), key=_depth, reverse=True):
                self.end(one, one.over or at, "" if one.over else error)

    def firing(self, place: Place, parent: Open | None, at: float, attributes: Attributes) -> Open:
        """A firing with `foreach`."""
        one = self._made(place.firing, parent, f"{names.STEP} {place.steps[-1]}", at, attributes, self.firings)
        one.place = place
        return one

    def activation(self, place: Place, parent: Open | None, name: str, at: float, attributes: Attributes) -> Open:
        """An activation."""
        one = self._made(place.activation, parent, name, at, attributes, self.activations)
        one.place = place
        one.common = {attribute: attributes[attribute] for attribute in _COMMON}
        return one

    def child(self, parent: Open, key: str, name: str, at: float, attributes: Attributes, *, kind: Kind = "internal",
              wrapper: Open | None = None) -> Open:
        """A call below an activation, or below another call of it. It has what all spans of the activation tell."""
        one = self._made(key, wrapper or parent, name, at, attributes, self.children)
        one.kind, one.wrapper, one.owner, one.common = kind, wrapper, parent.activation, parent.common
        attributes.update(parent.common)
        one.owner.under += 1
        return one

    def below(self, activation: Open, *, deep: bool) -> list[Open]:
        """What is under way in an activation that ends, the innermost first; `deep`: it is a SOP, and has steps of its own."""
        if not activation.under and not deep:
            return []
        inside = f"{activation.key}/"
        return [one for held in (self.children, self.activations, self.firings)
                for one in sorted(held.values(), key=_depth, reverse=True) if one.key.startswith(inside)]

    def end(self, one: Open, at: float, error: str = "", words: str = "") -> None:
        """A span ends, and is given out."""
        one.home.pop(one.key, None)
        if one is self.flow:
            self.flow = None
        if one.owner is not None:
            one.owner.under -= 1
        if error:
            one.attributes[names.ERROR] = error
        self._ended.append(Span(self.trace, one.id, one.parent, one.name, one.kind, one.start, max(at, one.start), one.attributes,
                                one.events, one.dropped, error, words, one.link))

    def taken(self) -> list[Span]:
        """What has ended since this was last asked."""
        ended = self._ended
        if ended:
            self._ended = []
        return ended

    def _made(self, key: str, parent: Open | None, name: str, at: float, attributes: Attributes, home: dict[str, Open]) -> Open:
        above = self.flow if parent is None else parent
        one = home[key] = Open(key, span_id(self.trace, self.number, key), self.root if above is None else above.id, name, at,
                               attributes, home)
        return one


def _depth(one: Open) -> int:
    return len(one.key)
