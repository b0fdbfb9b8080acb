"""The pure fold: events → the state of a run. Nothing here reads a file, a clock or a model.

Every component that wants to know how a run stands asks this value; it is changed by `apply` alone, once an event is
durable. It holds digests, never payloads, and forgets what only an unfinished firing needs once that firing commits,
so that a long run does not grow it by what was said in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from metaflow_agents.journal.records import Act, Call, Made, Result, Spending
from metaflow_agents.schema.endpoint import EndpointModel
from metaflow_agents.schema.event import (
    Answered,
    Asked,
    Committed,
    Decided,
    Documented,
    Done,
    Entry,
    Event,
    Failed,
    Finished,
    Fired,
    Inner,
    Intended,
    Observed,
    Reserved,
    Resumed,
    RunEnded,
    RunOpened,
    Sent,
    Settled,
)
from metaflow_agents.schema.keys import LOOK, firing_key, parse_activation, split_inner

_SUMMARIES = 64                     # of each role, the latest, on which others may build
_KEYED = (Reserved, Settled, Observed, Decided, Intended, Done, Asked, Answered)


@dataclass(slots=True)
class Firing:
    """A firing that has not committed yet."""

    step: str
    round: int
    read: dict[str, int]
    items: tuple[str, ...] | None
    began: float = 0.0                                            # in seconds of the run's own time
    past: int = 0                                                 # the firings that it descends from, by `RunState.order`
    questions: int = 0                                            # of it that nobody answered yet
    since: float = 0.0                                            # in the run's own time: when the first of them was asked
    waited: float = 0.0                                           # seconds of that time in which one was open
    done: dict[str | None, Result] = field(default_factory=dict)
    lost: dict[str | None, str] = field(default_factory=dict)     # item → error, failed for good
    doubted: dict[str | None, str] = field(default_factory=dict)  # item → the label of that error's words
    memory: list[Entry] = field(default_factory=list)
    slots: dict[str | None, Slot] = field(default_factory=dict)
    key: str = field(init=False)                                  # `step@round`

    def __post_init__(self) -> None:
        self.key = firing_key(self.step, self.round)

    def slot(self, item: str | None) -> Slot:
        """What is known of an item's attempts."""
        found = self.slots.get(item)
        if found is None:
            found = self.slots[item] = Slot()
        return found


@dataclass(slots=True)
class Slot:
    """The attempts at one item. Calls and observations are those of the attempt under way; of earlier ones `acts` holds the
    effects that happen once and have happened, or may have: no further attempt makes them again.
    """

    attempts: int = 0                                             # that failed, ever: the number of the next one
    series: int = 0                                               # that failed since the run last stopped because of it
    calls: dict[str, Call] = field(default_factory=dict)
    observed: dict[str, str] = field(default_factory=dict)        # key → digest of what a command or a function gave
    acts: dict[str, Act] = field(default_factory=dict)            # key → a tool call
    decided: dict[tuple[str, str], Decided] = field(default_factory=dict)  # (key of a tool call, action) → the last decision
    inner: RunState | None = None                                 # of a sub-SOP: how it stands
    said: set[tuple[str, str]] = field(default_factory=set)       # (key of a question to a role, who spoke)

    def forget(self) -> None:
        """Drops the replies of an attempt that is over: a resume will not ask for them again."""
        self.calls.clear()
        self.observed.clear()
        self.acts = {key: act for key, act in self.acts.items() if act.stands}
        self.decided.clear()
        self.inner = None
        self.said.clear()


@dataclass(slots=True)
class RunState:
    """How a run stands after the events applied so far."""

    seq: int = 0
    opened: RunOpened | None = None
    compiled: str = ""                                             # digest of the program in force
    versions: dict[str, list[Made]] = field(default_factory=dict)
    maker: dict[str, str | None] = field(default_factory=dict)     # artifact → step of its latest version
    outside: bool = False                                          # whether any version or message is untrusted
    fired: dict[str, int] = field(default_factory=dict)            # step → firings so far
    cursor: dict[str, dict[str, int]] = field(default_factory=dict)
    active: dict[str, Firing] = field(default_factory=dict)        # by firing key, in order of firing
    last: dict[str, dict[str, Result]] = field(default_factory=dict)   # step → item → result of its last firing
    walked: dict[str, tuple[str, ...]] = field(default_factory=dict)   # step → keys of its last firing, failed ones too
    reads: dict[str, dict[str, int]] = field(default_factory=dict)     # firing → versions read
    order: dict[str, int] = field(default_factory=dict)            # firing → how many fired before: its bit in a causal past
    descent: dict[str, int] = field(default_factory=dict)          # artifact → the firings from which its latest version descends
    memory: dict[str, list[Entry]] = field(default_factory=dict)       # firing → what roles remember of it
    remembered: dict[str, list[str]] = field(default_factory=dict)     # role (or character) → the firings that it remembers
    reflected: dict[str, int] = field(default_factory=dict)        # firing in which a role reflected → its causal past
    summarised: dict[str, dict[str, int]] = field(default_factory=dict)    # role or character → firing with a summary → its past
    spent: dict[tuple[str, str], Spending] = field(default_factory=dict)   # (role, step) → calls and tokens
    busy: dict[str, float] = field(default_factory=dict)           # step → seconds that committed firings of it took
    models: dict[str, str] = field(default_factory=dict)
    sandbox: str = ""                                              # where commands run; empty where none was chosen
    chosen: dict[str, str | EndpointModel] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict)          # `GROUP/NAME` → distribution and version
    base_url: str | None = None
    budget: dict[str, float] = field(default_factory=dict)
    replies: int = 0                                               # model calls that were answered, those of looks left out
    looks: list[str] = field(default_factory=list)                 # payloads of what was said of the run as a whole
    until: str | None = None
    activations: int = 0
    sent: list[Sent] = field(default_factory=list)
    questions: dict[str, Asked] = field(default_factory=dict)      # key → a question that nobody answered yet
    answers: dict[str, Answered] = field(default_factory=dict)     # key → the answer
    put: dict[str, str] = field(default_factory=dict)              # key → digest of the question that was asked last
    asked: dict[str, int] = field(default_factory=dict)            # key → its number: how many were asked up to it
    chain: str = ""                                                # of the audit: digest of its last record
    records: int = 0                                               # of the audit
    ended: RunEnded | None = None
    began: float = 0.0
    latest: float = 0.0                                            # time of the last event
    elapsed: float = 0.0                                           # seconds that the run was under way, pauses left out

    def apply(self, seq: int, event: Event) -> None:
        """Folds one durable event in. Events come in the order of their numbers."""
        if event.kind not in ("run_opened", "resumed") and event.at > self.latest:
            rested = event.rested if event.kind == "answered" else 0.0
            self.elapsed += max(event.at - self.latest - rested, 0.0)
        self.seq, self.latest = seq, event.at
        inside = split_inner(event.key) if isinstance(event, _KEYED) else None
        if inside is not None:
            self._in_sub_sop(event, *inside)
        else:
            getattr(self, f"_{event.kind}")(event)         # one method for each kind; a kind without one is a bug that shows

    def firing_reads(self, firing: str) -> Mapping[str, int]:
        """Artifact → version that a firing read."""
        return self.reads.get(firing, {})

    def version(self, artifact: str) -> int:
        """Number of its latest version; 0 where there is none."""
        return len(self.versions.get(artifact, ()))

    def payload(self, artifact: str, version: int | None = None) -> str | None:
        """Digest of a version's payload (by default the latest); None where there is none."""
        made = self.versions.get(artifact, [])
        number = len(made) if version is None else version
        return made[number - 1].payload if 0 < number <= len(made) else None

    def untrusted(self, artifact: str, version: int | None = None) -> str:
        """The label of a version (by default the latest); empty where it is trusted, or where there is none."""
        made = self.versions.get(artifact, [])
        number = len(made) if version is None else version
        return made[number - 1].untrusted if 0 < number <= len(made) else ""

    def total(self) -> Spending:
        """Calls, tokens and money of the whole run."""
        return sum(self.spent.values(), Spending())

    def _run_opened(self, event: RunOpened) -> None:
        self.opened, self.began = event, event.at
        self.compiled, self.models, self.until = event.compiled, dict(event.models), event.until
        self.budget, self.sandbox = dict(event.budget), event.sandbox
        self.chosen, self.base_url = dict(event.chosen), event.base_url
        self.plugins = dict(event.plugins)

    def _run_ended(self, event: RunEnded) -> None:
        self.ended = event

    def _sent(self, event: Sent) -> None:
        if event.key:
            self._slot(event.key).said.add((event.key, event.sender))
        else:
            self.sent.append(event)
        self.outside = self.outside or bool(event.untrusted)

    def _observed(self, event: Observed) -> None:
        self._slot(event.key).observed[event.key] = event.payload

    def _decided(self, event: Decided) -> None:
        self._slot(event.key).decided[event.key, event.action] = event
        self._record(event.chain)

    def _asked(self, event: Asked) -> None:
        if event.key not in self.questions:
            self._wait(event.key, 1)
        self.questions[event.key] = event
        self.answers.pop(event.key, None)                          # it was one to another question
        self.put[event.key] = event.question
        self.asked.setdefault(event.key, len(self.asked) + 1)
        self._record(event.chain)

    def _answered(self, event: Answered) -> None:
        if self.questions.pop(event.key, None) is not None:
            self._wait(event.key, -1)
        self.answers[event.key] = event
        self._record(event.chain)

    def _wait(self, key: str, more: int) -> None:
        """A question of a firing is open, or no longer: as long as one is, its step's clock stands still."""
        firing = self.active.get(parse_activation(key).firing)
        if firing is None:
            return
        if not firing.questions:
            firing.since = self.elapsed
        firing.questions += more
        if not firing.questions:
            firing.waited += self.elapsed - firing.since

    def _close(self, activation: str) -> None:
        """What an activation that is over asked and nobody answered: nobody has to any more."""
        for key in [key for key in self.questions if key == activation or key.startswith(f"{activation}/")]:
            del self.questions[key]
            self._wait(key, -1)

    def _record(self, chain: str) -> None:
        self.chain, self.records = chain, self.records + 1

    def _intended(self, event: Intended) -> None:
        acts = self._slot(event.key).acts
        acts[event.key] = Act(event, times=acts[event.key].times + 1 if event.key in acts else 1)

    def _done(self, event: Done) -> None:
        self._slot(event.key).acts[event.key].done = event

    def _resumed(self, event: Resumed) -> None:
        self.ended = None
        self.compiled, self.until = event.compiled, event.until
        self.sandbox = event.sandbox or self.sandbox
        self.plugins = self.plugins if event.plugins is None else dict(event.plugins)
        if event.models:                                           # a fork begins with an event that names none
            self.models, self.chosen, self.base_url = dict(event.models), dict(event.chosen), event.base_url
        self.budget.update(event.budget)
        for firing in self.active.values():
            for slot in firing.slots.values():
                slot.series = max(slot.series, 0)
                if slot.inner is not None:
                    slot.inner.apply(self.seq, event)

    def _inner(self, event: Inner) -> None:
        slot = self._slot(event.activation)
        if slot.inner is None:
            slot.inner = RunState(latest=event.at)
        slot.inner.apply(self.seq, event.event)
        if isinstance(event.event, Finished | Failed):
            self._close(f"{event.activation}/{event.event.activation}")

    def _in_sub_sop(self, event: Event, activation: str, key: str) -> None:
        """A call, a tool or a question of a sub-SOP: people and the audit know it by its whole key, its cost is the step's."""
        if isinstance(event, Asked | Answered):
            getattr(self, f"_{event.kind}")(event)
            return
        inner = self._slot(activation).inner
        if inner is None:
            raise ValueError(f"{activation} has no sub-SOP under way")
        if isinstance(event, Decided):
            self._record(event.chain)
        before = inner.total() if isinstance(event, Reserved | Settled) else None
        inner.apply(self.seq, event.model_copy(update={"key": key}))
        if before is not None:
            payer = "", parse_activation(activation).step
            self.spent[payer] = self.spent.get(payer, Spending()) + (inner.total() - before)

    def _fired(self, event: Fired) -> None:
        past = 0
        for artifact, number in event.read.items():
            past |= self.descent.get(artifact, 0) if number else 0          # what is read is the latest version
        firing = Firing(event.step, event.round, dict(event.read), event.items, self.elapsed, past)
        self.fired[event.step] = event.round
        self.cursor[event.step] = dict(event.read)
        self.active[firing.key] = firing
        self.reads[firing.key] = firing.read
        self.order[firing.key] = len(self.order)

    def _reserved(self, event: Reserved) -> None:
        activation = parse_activation(event.key)
        self._slot(event.key).calls[event.key] = Call(event.digest, event.role, event.try_, event.tokens, event.cost,
                                                      event.unpriced, request=event.request)
        self.spent.setdefault((event.role, activation.step), Spending()).reserve(event)

    def _settled(self, event: Settled) -> None:
        activation = parse_activation(event.key)
        call = self._slot(event.key).calls[event.key]
        call.reply, call.failure = event.reply, None if event.stops or event.again else event.error
        self.replies += event.reply is not None and activation.step != LOOK
        self.spent[call.role, activation.step].settle(event, call.worst, call.worst_cost, unpriced=call.unpriced)

    def _finished(self, event: Finished) -> None:
        activation = parse_activation(event.activation)
        firing = self.active[activation.firing]
        firing.done[activation.item] = Result(event.payload, event.digest, (), event.untrusted, event.assumed)
        self._close(event.activation)
        self.activations += 1
        if event.memory is not None:
            firing.memory += [event.memory, *event.besides]
        firing.slot(activation.item).forget()

    def _failed(self, event: Failed) -> None:
        activation = parse_activation(event.activation)
        firing = self.active[activation.firing]
        slot = firing.slot(activation.item)
        slot.forget()
        self._close(event.activation)
        slot.attempts = activation.attempt + 1
        slot.series = -1 if event.stops else slot.series + 1
        if event.final and not event.stops:
            firing.lost[activation.item] = event.error
            firing.doubted[activation.item] = event.untrusted

    def _slot(self, key: str) -> Slot:
        activation = parse_activation(key)
        return self.active[activation.firing].slot(activation.item)

    def _documented(self, event: Documented) -> None:
        made = self.versions[event.artifact]
        made[event.number - 1] = replace(made[event.number - 1], payload=event.payload)

    def _committed(self, event: Committed) -> None:
        firing = None if event.firing is None else self.active.pop(event.firing)
        step = None if firing is None else firing.step
        descent = 0 if firing is None else firing.past | 1 << self.order[firing.key]
        for version in event.versions:
            self.descent[version.artifact] = descent
            self.versions.setdefault(version.artifact, []).append(
                Made(version.number, version.payload, event.firing, version.untrusted))
            self.outside = self.outside or bool(version.untrusted)
            self.maker[version.artifact] = step
        if firing is None:
            return
        if firing.step == LOOK:
            self.looks += [result.payload for result in firing.done.values()]
        self.busy[firing.step] = self.busy.get(firing.step, 0.0) + self.elapsed - firing.began - firing.waited
        before = self.last.get(firing.step, {})
        results = {}
        for key, result in firing.done.items():
            if key is not None:
                old = before.get(key)
                earlier = () if old is None else (*old.before, old.payload)
                results[key] = replace(result, before=tuple(dict.fromkeys(earlier)))
        results.update((key, before[key]) for key in event.reused)
        self.last[firing.step] = results
        self.walked[firing.step] = firing.items or ()
        if firing.memory:
            self.outside = self.outside or any(entry.untrusted for entry in firing.memory)
            order = {key: place for place, key in enumerate(firing.items or ())}
            firing.memory.sort(key=lambda entry: order.get(parse_activation(entry.activation).item or "", 0))
            self.memory[firing.key] = firing.memory
            if any(entry.kind == "reflection" for entry in firing.memory):
                self.reflected[firing.key] = firing.past
            for mind in {entry.whose for entry in firing.memory if entry.kind == "summary"}:
                kept = self.summarised.setdefault(mind, {})
                kept[firing.key] = firing.past
                if len(kept) > _SUMMARIES:
                    del kept[next(iter(kept))]
            for mind in {entry.whose for entry in firing.memory}:
                self.remembered.setdefault(mind, []).append(firing.key)
