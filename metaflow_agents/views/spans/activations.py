"""The spans of firings and activations: each begins with the first sign of it in a sitting, whatever event that is."""

from __future__ import annotations

from typing import NamedTuple

from metaflow_agents.schema.event import Fired
from metaflow_agents.schema.keys import Place, place_of, steps_in
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.content import Content
from metaflow_agents.views.spans.open import Open, OpenSpans
from metaflow_agents.views.spans.span import Attributes
from metaflow_agents.views.spans.steps import StepFacts, Steps


class _Usual(NamedTuple):
    """What the spans of all activations of a step have in common: with each other, and with those of their calls."""

    facts: StepFacts
    name: str
    told: Attributes
    common: Attributes


class Activations:
    """Finds the span of an activation or a firing, or begins it. `items`: firing → item's key → its place, None without
    `foreach`. `run` is the run's name.
    """

    def __init__(self, spans: OpenSpans, steps: Steps, content: Content | None) -> None:
        self.spans, self.steps, self.content = spans, steps, content
        self.items: dict[str, dict[str, int] | None] = {}
        self.over: dict[str, Open] = {}
        self.run = ""
        self._known: dict[tuple[str, ...], _Usual] = {}

    def fired(self, event: Fired, inside: str, at: float) -> None:
        """A step fires, and its first attempt begins; with `foreach` that of each item does later."""
        own = f"{event.step}@{event.round}"
        firing = f"{inside}/{own}" if inside else own
        path = (*(steps_in(inside) if inside else ()), event.step)
        place = Place(f"{firing}~0", event.round, None, 0, path, firing, inside, "")
        if event.items is None:
            self.items[firing] = None
            self._begun(place, at)
        else:
            self.items[firing] = {key: place for place, key in enumerate(event.items)}
            self.firing(place, at)

    def at(self, key: str, at: float) -> Open:
        """The activation of a key, or of what lies in it."""
        known = self.spans.activations
        one = known.get(key)
        if one is None:
            end = key.find("/", key.find("~") + 1)
            if end > 0 and "@" not in key[end:]:        # most often: nothing that needs to be taken apart
                one = known.get(key[:end])
        if one is None:
            place = place_of(key)
            if place is None:
                raise ValueError(f"{key!r} is no activation: it looks like fix_code@3[src/a.py]~0")
            one = known.get(place.activation) or self._begun(place, at)
        return one

    def firing(self, place: Place, at: float) -> Open:
        """The firing with `foreach` of a place."""
        one = self.spans.firings.get(place.firing)
        if one is None:
            told: Attributes = {**self._usual(place.steps).common, names.ROUND: place.round, names.EVENT: self.spans.number,
                                names.ITEMS: len(self.items.get(place.firing) or ())}
            one = self.spans.firing(place, self._around(place, at), at, told)
        return one

    def end(self, one: Open, at: float, error: str = "", words: str = "") -> None:
        """An activation ends, and what is under way in it."""
        deep = one.attributes[names.STEP_TYPE] == "sop"
        for child in self.spans.below(one, deep=deep):
            self.spans.end(child, at, "cancelled")
        if one.tokens_in or one.tokens_out:
            one.attributes[names.INPUT_TOKENS], one.attributes[names.OUTPUT_TOKENS] = one.tokens_in, one.tokens_out
        self.spans.end(one, at, error, words)

    def named(self, one: Open, role: str) -> None:
        """An activation whose role is worked out gets its name where that is first told."""
        if role and names.AGENT not in one.attributes and one.attributes.get(names.OPERATION) == names.INVOKE_AGENT:
            one.attributes[names.AGENT] = role
            one.name = f"{names.INVOKE_AGENT} {role}"

    def _begun(self, place: Place, at: float) -> Open:
        items = self.items.get(place.firing)
        parent = self._around(place, at) if items is None else self.firing(place, at)
        usual = self._usual(place.steps)
        told = {**usual.told, names.ROUND: place.round, names.EVENT: self.spans.number}
        if place.attempt:
            told[names.ATTEMPT] = place.attempt
        if items is not None and place.item is not None:
            told[names.ITEM] = items.get(place.item, -1)
            if self.content is not None:
                told[names.ITEM_KEY] = self.content.text(place.item)
        return self.spans.activation(place, parent, usual.name, at, told, usual.common)

    def _usual(self, path: tuple[str, ...]) -> _Usual:
        """What all activations of a step tell."""
        facts = self.steps.of(path)
        found = self._known.get(path)
        if found is None or found.facts is not facts:       # the SOP is another one since a resume
            found = self._known[path] = self._worked_out(path, facts)
        return found

    def _worked_out(self, path: tuple[str, ...], facts: StepFacts) -> _Usual:
        common: Attributes = {names.CONVERSATION: self.run, names.STEP_NAME: "/".join(path)}
        told: Attributes = {**common, names.STEP_TYPE: facts.type}
        name = f"{names.STEP} {path[-1]}"
        if facts.type == "role":
            told[names.OPERATION], name = names.INVOKE_AGENT, f"{names.INVOKE_AGENT} {facts.role}".rstrip()
            if facts.role:
                told[names.AGENT] = facts.role
        elif facts.type == "sop":
            told[names.OPERATION], told[names.AGENT] = names.INVOKE_WORKFLOW, facts.sop
            name = f"{names.INVOKE_WORKFLOW} {facts.sop}"
        return _Usual(facts, name, told, common)

    def _around(self, place: Place, at: float) -> Open | None:
        return self.at(place.around, at) if place.around else None
