"""From events to spans. Each span is given out once, by the event that ends it, and is the same whenever that is worked out.

No span outlives its sitting: the process that worked on it. What a kill leaves under way ends, as `interrupted`, with the
`resumed` after it, at the time of the last event before; so the spans of a journal are the same whether it is read to its end or
goes on. `names.TOLD_AS` says what becomes of each kind of event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from metaflow_agents.schema import event as events
from metaflow_agents.schema.keys import CHECKED, REPAIRED
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.activations import Activations
from metaflow_agents.views.spans.calls import Calls
from metaflow_agents.views.spans.content import Content
from metaflow_agents.views.spans.identity import FIRST, span_id, trace_id
from metaflow_agents.views.spans.metrics import Meters
from metaflow_agents.views.spans.open import Open, OpenSpans
from metaflow_agents.views.spans.span import Attributes, Span
from metaflow_agents.views.spans.steps import Providers, Steps

_MOST_VERSIONS = 32                             # that a span names
_BAD = ("failure", "stopped", "budget", "endpoint")
_NOTES = frozenset({"run", "tools"})            # what observations are called by the end of their keys; others are notes


class Spans:
    """The spans of one run, from its events in their order, and its metrics. `blob` gives a blob of its journal; `content`: what
    is exported of calls, None for nothing; `name`: what the run is called, if not as its journal says: a fork.
    """

    def __init__(self, blob: Callable[[str], bytes], content: Content | None = None, name: str = "") -> None:
        self._content, self._name, self.meters = content, name, Meters()
        self._steps, self._providers, self._open = Steps(blob), Providers(), OpenSpans()
        self._activations = Activations(self._open, self._steps, content)
        self._calls = Calls(self._activations, self._providers, self.meters)
        self._asked_at: dict[str, float] = {}
        self._answers: list[tuple[str, float, Attributes]] = []         # whose sitting is not known yet
        self.last = 0.0

    @property
    def trace(self) -> bytes:
        """The id of the run's trace; empty before its first event."""
        return self._open.trace

    def hear(self, number: int, event: events.Event) -> list[Span]:
        """The spans that an event ends, the innermost first. `number` is that of the event in the journal."""
        self._open.number = number
        if event.kind == "answered":
            self._answered(event, event.at)
            return []
        if self._answers and event.kind != "resumed":
            for key, at, told in self._answers:
                self._calls.around(key, at).tell(names.ANSWERED, at, told)
            self._answers = []
        _TAKES[event.kind](self, event, event.at, "")
        self.last = event.at
        return self._open.taken()

    def cut_off(self) -> list[Span]:
        """What a run that was killed left under way, as the `resumed` after it will end it: nothing may be heard after this."""
        self._killed()
        return self._open.taken()

    # The run

    def _run_opened(self, event: events.RunOpened, at: float, _: str) -> None:
        self._learn(event)
        self._activations.run = self._name or event.run
        self._open.begin(trace_id(event, self._name))
        flow = self._sits_down(at, {names.PACKAGE: event.package, names.SANDBOX: event.sandbox, names.UNTIL: event.until or "",
                                    names.REUSED: event.reused_from or "", names.DRY: event.staged})
        if self._activations.run != event.run:
            source = trace_id(event)
            flow.attributes[names.FORKED], flow.link = event.run, (source, span_id(source, FIRST, ""))

    def _resumed(self, event: events.Resumed, at: float, _: str) -> None:
        self._learn(event)
        self._killed()
        self._sits_down(at, {names.RESUMED: True, names.SANDBOX: event.sandbox, names.UNTIL: event.until or "",
                             names.CHANGES: len(event.changes)})

    def _sits_down(self, at: float, more: Attributes) -> Open:
        program = self._steps.program
        sop = "" if program is None else program.sop.sop
        self.meters.begin(at)
        flow = self._open.sit_down(f"{names.INVOKE_WORKFLOW} {sop}", at, {
            names.OPERATION: names.INVOKE_WORKFLOW, names.AGENT: sop, names.SOP: sop, names.RUN: self._activations.run,
            names.CONVERSATION: self._activations.run, names.EVENT: self._open.number,
            **{name: value for name, value in more.items() if value}})
        for _, answered, told in self._answers:
            flow.tell(names.ANSWERED, answered, told)
        self._answers = []
        return flow

    def _killed(self) -> None:
        """Ends what is under way where the process that worked on it was killed."""
        if (flow := self._open.flow) is not None:
            self._open.rest(self.last, "interrupted")
            self._open.end(flow, self.last, "interrupted")

    def _run_ended(self, event: events.RunEnded, at: float, _: str) -> None:
        if (flow := self._open.flow) is not None:
            error = event.outcome if event.outcome in _BAD else ""
            self._open.rest(at, "cancelled" if error or event.outcome == "interrupted" else "")
            flow.attributes[names.OUTCOME] = event.outcome
            self.meters.workflow(flow, at - flow.start, error)
            words = self._words(event.reason)
            if words and not error:             # a description belongs to an error
                flow.attributes[names.WORDS] = words
            self._open.end(flow, at, error, words)

    # Firings and activations

    def _fired(self, event: events.Fired, at: float, inside: str) -> None:
        self._activations.fired(event, inside, at)

    def _finished(self, event: events.Finished, at: float, inside: str) -> None:
        one = self._activations.at(_below(inside, event.activation), at)
        one.start = min(one.start, at - event.seconds)
        if event.reused_from:
            one.attributes[names.REUSED] = event.reused_from.partition(":")[0]
        if event.untrusted:
            one.attributes[names.UNTRUSTED] = True
        self._remembered(one, event, at)
        self.meters.activation(one, event.seconds, "")
        if one.place is not None and self._activations.items.get(one.place.firing) is None:
            one.over = at                       # its `committed` follows in the same transaction, and says what was made
            self._activations.over[one.place.firing] = one
        else:
            self._activations.end(one, at)

    def _remembered(self, one: Open, event: events.Finished, at: float) -> None:
        if event.memory is None:
            return
        self._activations.named(one, event.memory.role)
        one.attributes[names.RECORDS] = 1 + len(event.besides)
        if event.besides:
            kinds = ", ".join(dict.fromkeys(entry.kind for entry in event.besides))
            self._open.end(self._open.child(one, f"{one.key}/{names.CREATE_MEMORY}", names.CREATE_MEMORY, at, {
                names.OPERATION: names.CREATE_MEMORY, names.STORE: event.memory.role, names.RECORDS: len(event.besides),
                names.WHAT: kinds, names.EVENT: self._open.number}), at)

    def _failed(self, event: events.Failed, at: float, inside: str) -> None:
        key = _below(inside, event.activation)
        one = self._activations.at(key, at)
        one.start = min(one.start, at - event.seconds)
        error = "stops" if event.stops else "failed"
        self.meters.activation(one, event.seconds, error)
        self._activations.end(one, at, error, self._words(event.error))
        if not event.final and not event.stops:
            slot, _, attempt = key.rpartition("~")
            self._activations.at(f"{slot}~{int(attempt) + 1}", at)

    def _committed(self, event: events.Committed, at: float, inside: str) -> None:
        made: Attributes = {names.ARTIFACTS: _versions(event.versions)} if event.versions else {}
        if event.firing is None:
            around = self._activations.at(inside, at) if inside else self._open.flow
            if around is not None:
                around.tell(names.INPUTS, at, made)
            return
        firing = _below(inside, event.firing)
        if event.reused:
            made[names.REUSED] = str(len(event.reused))
        self._activations.items.pop(firing, None)
        whole, only = self._open.firings.get(firing), self._activations.over.pop(firing, None)
        if whole is not None:
            whole.attributes.update(made)
            self._open.end(whole, at)
        elif only is not None:
            only.attributes.update(made)
            self._activations.end(only, at)
        elif self._open.flow is not None:
            self._open.flow.tell(names.COMMITTED, at, {names.ROUND: int(event.firing.rpartition("@")[2]), **made,
                                                       names.STEP_NAME: event.firing.rpartition("@")[0]})

    # What happens besides

    def _reserved(self, event: events.Reserved, at: float, _: str) -> None:
        self._calls.reserved(event, at)

    def _settled(self, event: events.Settled, at: float, _: str) -> None:
        self._calls.settled(event, at)

    def _decided(self, event: events.Decided, at: float, _: str) -> None:
        self._calls.decided(event, at)

    def _intended(self, event: events.Intended, at: float, _: str) -> None:
        self._calls.intended(event, at)

    def _done(self, event: events.Done, at: float, _: str) -> None:
        self._calls.done(event, at)

    def _asked(self, event: events.Asked, at: float, _: str) -> None:
        self._asked_at[event.key] = at
        self._calls.around(event.key, at).tell(names.ASKED, at, self._held(event.question))

    def _answered(self, event: events.Answered, at: float) -> None:
        """It may come while no process has the run: then it belongs to the sitting that is resumed with it."""
        waited = at - self._asked_at.pop(event.key, at)
        self.meters.question(waited)
        by = "earlier answer" if event.by.startswith("earlier answer") else event.by       # behind it stands a key
        self._answers.append((event.key, at, {names.BY: by, names.SECONDS: round(waited, 6), **self._held(event.answer)}))

    def _observed(self, event: events.Observed, at: float, _: str) -> None:
        last = event.key.rpartition("/")[2]
        usual = last if last in _NOTES else "note"
        what = "check" if CHECKED in event.key else "repair" if event.key.endswith(REPAIRED) else usual
        told: Attributes = {names.WHAT: what}
        if event.seconds:
            told[names.SECONDS] = round(event.seconds, 6)
        if self._content is not None:
            told[names.KEY] = self._content.text(event.key)
        self._calls.around(event.key, at).tell(names.OBSERVED, at, told)

    def _documented(self, event: events.Documented, at: float, _: str) -> None:
        if self._open.flow is not None:
            self._open.flow.tell(names.DOCUMENTED, at, {names.ARTIFACTS: (f"{event.artifact}@{event.number}",)})

    def _sent(self, event: events.Sent, at: float, inside: str) -> None:
        key = _below(inside, event.key) if event.key else inside
        around = self._calls.around(key, at) if key else self._open.flow
        if around is not None:
            around.tell(names.MESSAGE, at, {names.SENDER: event.sender, names.TO: event.to or "*", **self._held(event.payload)})

    def _inner(self, event: events.Inner, at: float, inside: str) -> None:
        _TAKES[event.event.kind](self, event.event, at, _below(inside, event.activation))

    def _learn(self, event: events.RunOpened | events.Resumed) -> None:
        self._steps.use(event.compiled)
        for one in () if self._steps.program is None else self._steps.program.all():
            self._providers.learn(one.sop.models, event.base_url)
        self._providers.learn(event.chosen, event.base_url)

    def _words(self, text: str) -> str:
        return "" if self._content is None else self._content.text(text)

    def _held(self, digest: str) -> Attributes:
        return {} if self._content is None else {names.WORDS: self._content.value(digest)}


_TAKES: dict[str, Callable[[Any, Any, float, str], None]] = {
    "run_opened": Spans._run_opened, "resumed": Spans._resumed, "fired": Spans._fired, "reserved": Spans._reserved,
    "settled": Spans._settled, "observed": Spans._observed, "decided": Spans._decided, "intended": Spans._intended,
    "done": Spans._done, "asked": Spans._asked, "finished": Spans._finished,
    "failed": Spans._failed, "committed": Spans._committed, "documented": Spans._documented, "sent": Spans._sent,
    "inner": Spans._inner, "run_ended": Spans._run_ended}
KINDS = frozenset((*_TAKES, "answered"))
"""The kinds of events that become something."""


def _below(inside: str, key: str) -> str:
    return f"{inside}/{key}" if inside else key


def _versions(versions: Iterable[events.Version]) -> tuple[str, ...]:
    return tuple([f"{one.artifact}@{one.number}" for one in versions][:_MOST_VERSIONS])
