"""Spans that have begun and not ended, and how they lie in each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from metaflow_agents.schema.keys import Place
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.identity import span_id
from metaflow_agents.views.spans.span import NO_EVENTS, Attributes, Kind, Span, SpanEvent

MOST_EVENTS = 128
"""Events of a span, as the SDKs of OpenTelemetry have it; of what comes after these only the count is told."""
_NOTHING: Attributes = {}


@dataclass(slots=True, eq=False)
class Open(Span):
    """A span under way, which is given out once it has ended. `place`: of firings and activations. `owner`: the activation to
    which a call belongs. `wrapper`: the span around a call, which ends with it. `over`: when an activation ended whose
    `committed` has still to come; `under`: how many calls are under way in it. Tokens and `cost` (picodollars) are sums.
    """

    key: str = ""
    home: dict[str, Open] = field(default_factory=dict)
    place: Place | None = None
    owner: Open | None = None
    wrapper: Open | None = None
    common: Attributes = field(default_factory=dict)
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
        if self.events is NO_EVENTS:
            self.events = []
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
        self.flow = self._flows[""] = Open(self.trace, span_id(self.trace, self.number, ""), self.root, name, "internal", at,
                                           attributes=attributes, home=self._flows, common=_NOTHING)
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

    def activation(self, place: Place, parent: Open | None, name: str, at: float, attributes: Attributes,
                   common: Attributes) -> Open:
        """An activation. `common`: what its calls tell, too."""
        one = self._made(place.activation, parent, name, at, attributes, self.activations)
        one.place, one.common = place, common
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
            one.attributes[names.ERROR] = one.error = error
            one.message = words
        one.end = at if at > one.start else one.start
        self._ended.append(one)

    def taken(self) -> list[Span]:
        """What has ended since this was last asked."""
        ended = self._ended
        if ended:
            self._ended = []
        return ended

    def _made(self, key: str, parent: Open | None, name: str, at: float, attributes: Attributes, home: dict[str, Open]) -> Open:
        above = self.flow if parent is None else parent
        one = home[key] = Open(self.trace, span_id(self.trace, self.number, key), self.root if above is None else above.id, name,
                               "internal", at, attributes=attributes, key=key, home=home, common=_NOTHING)
        return one


def _depth(one: Open) -> int:
    return len(one.key)
