"""How a run stands after each of its events, for its page: a third fold beside `journal/state.py` and `journal/projection.py`.

It goes over the JSON of the rows as they come, builds no values, and holds no more than the steps, the firings under way, the
open calls and the questions of a run: a journal of any length is followed with it, event by event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from metaflow_agents.journal.records import Spending
from metaflow_agents.journal.run_summary import unwrapped
from metaflow_agents.schema.keys import parse_activation, steps_in
from metaflow_agents.views.ui.clock import RunClock

_MADE = 50                          # versions of a step that are named: the latest
_ERROR = 2000                       # characters of an error


@dataclass(slots=True)
class FiringProgress:
    """A firing under way. `items`: how many, None without `foreach`; `slots`: activations that have begun → attempts that
    failed; `inside`: steps under way of a sub-SOP.
    """

    round: int
    items: int | None
    began: float
    done: int = 0
    failed: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    inside: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class StepProgress:
    """A step. Times are seconds of the run's own time. `items`: (of, done, failed) of its last firing that is over; `error`: of
    the last attempt that failed; `stopped`: that one stopped the run.
    """

    fired: int = 0
    began: float | None = None
    ended: float | None = None
    active: dict[str, FiringProgress] = field(default_factory=dict)
    items: tuple[int, int, int] | None = None
    error: str = ""
    stopped: bool = False
    made: deque[str] = field(default_factory=lambda: deque(maxlen=_MADE))
    spent: Spending = field(default_factory=Spending)


@dataclass(frozen=True, slots=True)
class AskedPerson:
    """A question that is open: its number in the run, the digest of its text, when it was asked (Unix time)."""

    number: int
    question: str
    at: float
    why: str


class Progress:
    """Take every event, in order. What `RunOpened` and `Resumed` say stands in `opened`."""

    def __init__(self) -> None:
        self.seq = 0
        self.clock = RunClock()
        self.opened: dict[str, Any] = {}
        self.sessions = 0                           # times that a process took it up
        self.budget: dict[str, float] = {}
        self.steps: dict[str, StepProgress] = {}
        self.fired: dict[str, int] = {}
        self.cursor: dict[str, Mapping[str, int]] = {}
        self.maker: dict[str, str | None] = {}
        self.versions: dict[str, int] = {}
        self.untrusted: dict[str, str] = {}
        self.total = Spending()
        self.activations = 0
        self.questions: dict[str, AskedPerson] = {}
        self.asked = 0
        self.outcome = ""
        self.reason = ""
        self.never: Mapping[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._calls: dict[tuple[str, int], tuple[str, int, int, bool]] = {}

    def forked_from(self, name: str) -> str | None:
        """The run that the run of this name branched off from: its journal begins with the events of that one."""
        first = self.opened.get("run", name)
        return self.opened.get("forked_from") or (None if first == name else str(first))

    @property
    def compiled(self) -> str:
        """Digest of the program in force; empty before the first event."""
        return str(self.opened.get("compiled", ""))

    def version(self, artifact: str) -> int:
        """Number of its latest version; 0 where there is none."""
        return self.versions.get(artifact, 0)

    def running(self) -> list[str]:
        """Steps with a firing under way."""
        return [name for name, step in self.steps.items() if step.active]

    def take(self, seq: int, event: Mapping[str, Any]) -> None:
        """One more event."""
        now = self.clock.take(event)
        self.seq = seq
        taken = _TAKES.get(event["kind"])
        if taken is not None:
            taken(self, event, now)

    def step(self, name: str) -> StepProgress:
        """What is known of a step."""
        found = self.steps.get(name)
        if found is None:
            found = self.steps[name] = StepProgress()
        return found

    def firing(self, key: str) -> tuple[FiringProgress | None, str]:
        """The firing that a key belongs to, while it is under way, and the activation without its attempt."""
        step, firing, slot = _split(key)
        return self.step(step).active.get(firing), slot

    def _opened(self, event: Mapping[str, Any], now: float) -> None:
        self.sessions += 1
        self.opened |= {name: value for name, value in event.items() if value}
        self.budget |= event.get("budget", {})

    def _resumed(self, event: Mapping[str, Any], now: float) -> None:
        self._opened(event, now)
        self.outcome, self.reason, self.never = "", "", {}
        self._calls.clear()                         # what a killed process asked is asked anew; its cost stays open
        for step in self.steps.values():
            step.stopped = False
            for firing in step.active.values():
                firing.slots.clear()
                firing.inside.clear()

    def _fired(self, event: Mapping[str, Any], now: float) -> None:
        name, number, items = event["step"], event["round"], event.get("items")
        step = self.step(name)
        self.fired[name] = step.fired = number
        self.cursor[name] = event["read"]
        step.began = now if step.began is None else step.began
        step.active[f"{name}@{number}"] = FiringProgress(number, None if items is None else len(items), now)

    def _touched(self, event: Mapping[str, Any], now: float) -> None:
        """A call, a tool or a command of an activation: it has begun."""
        firing, slot = self.firing(event["key"])
        if firing is not None:
            firing.slots.setdefault(slot, 0)

    def _reserved(self, event: Mapping[str, Any], now: float) -> None:
        self._touched(event, now)
        key, name = event["key"], event["key"].partition("@")[0]
        call = name, event["tokens"], event.get("cost", 0), event.get("unpriced", False)
        self._calls[key, event.get("try", 0)] = call
        for spent in (self.total, self.step(name).spent):
            spent.open_calls += 1
            spent.open_tokens += call[1]
            spent.open_cost += call[2]
            spent.unpriced += call[3]

    def _settled(self, event: Mapping[str, Any], now: float) -> None:
        call = self._calls.pop((event["key"], event.get("try", 0)), None)
        if call is None:
            return
        name, tokens, cost, unpriced = call
        calls, paid = event.get("calls", 1), event.get("cost", 0)
        for spent in (self.total, self.step(name).spent):
            spent.open_calls -= 1
            spent.open_tokens -= tokens
            spent.open_cost -= cost
            spent.calls += calls
            spent.tokens += event.get("tokens_in", 0) + event.get("tokens_out", 0)
            spent.out += event.get("tokens_out", 0)
            spent.cached += event.get("tokens_cached", 0)
            spent.cost += paid
            spent.estimated += paid * event.get("estimated", False)
            spent.unpriced -= unpriced and not calls

    def _asked(self, event: Mapping[str, Any], now: float) -> None:
        self._touched(event, now)
        key = event["key"]
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        self.questions[key] = AskedPerson(number, event["question"], event.get("at", 0.0), event.get("why", ""))

    def _answered(self, event: Mapping[str, Any], now: float) -> None:
        self.questions.pop(event["key"], None)

    def _finished(self, event: Mapping[str, Any], now: float) -> None:
        key = event["activation"]
        self._close(key)
        self.activations += 1
        firing, slot = self.firing(key)
        if firing is not None:
            firing.done += 1
            self._left(firing, slot, key)

    def _failed(self, event: Mapping[str, Any], now: float) -> None:
        key = event["activation"]
        self._close(key)
        activation, (firing, slot) = parse_activation(key), self.firing(key)
        step = self.step(activation.step)
        step.error = event["error"][:_ERROR]
        step.stopped = event.get("stops", False)
        if firing is None:
            return
        self._left(firing, slot, key)
        if not event.get("final"):
            firing.slots[slot] = activation.attempt + 1
        elif not step.stopped:
            firing.failed += 1

    def _left(self, firing: FiringProgress, slot: str, key: str) -> None:
        """An attempt is over: nothing of it is under way."""
        firing.slots.pop(slot, None)
        for inside in [one for one in firing.inside if one.startswith(f"{key}/")]:
            del firing.inside[inside]

    def _close(self, activation: str) -> None:
        """What an activation asked that is over, nobody has to answer."""
        if self.questions:
            for key in [key for key in self.questions if key == activation or key.startswith(f"{activation}/")]:
                del self.questions[key]

    def _committed(self, event: Mapping[str, Any], now: float) -> None:
        key = event.get("firing")
        name = None if key is None else key.partition("@")[0]
        step = None if name is None else self.step(name)
        for version in event.get("versions", ()):
            artifact = version["artifact"]
            self.versions[artifact] = version["number"]
            self.maker[artifact] = name
            self.untrusted[artifact] = version.get("untrusted", "")
            if step is not None:
                step.made.append(f"{artifact}@{version['number']}")
        if step is None or key is None:
            return
        firing = step.active.pop(key, None)
        step.ended = now
        if firing is not None:
            reused = len(event.get("reused", ()))
            step.items = None if firing.items is None else (firing.items, firing.done + reused, firing.failed)

    def _inner(self, event: Mapping[str, Any], now: float) -> None:
        where, told = unwrapped(event)
        firing, slot = self.firing(where)
        if firing is None:
            return
        firing.slots.setdefault(slot, 0)
        if told["kind"] == "fired":
            firing.inside[f"{where}/{told['step']}@{told['round']}"] = None
        elif told["kind"] == "committed":
            firing.inside.pop(f"{where}/{told.get('firing')}", None)
        elif told["kind"] in ("finished", "failed"):
            self._close(f"{where}/{told['activation']}")

    def _ended(self, event: Mapping[str, Any], now: float) -> None:
        self.outcome, self.reason, self.never = event["outcome"], event.get("reason", ""), event.get("never", {})


def _split(key: str) -> tuple[str, str, str]:
    """Step, firing and activation without its attempt of a key. Quicker than `parse_activation`: it is asked for each event."""
    step = key.partition("@")[0]
    head, bracket, rest = key.partition("[")
    if not bracket or "~" in head:                  # no item, or only inside of a sub-SOP
        firing = key.partition("~")[0]
        return step, firing, firing
    return step, head, f"{head}[{rest.partition(']')[0]}]"


def inside_told(firing: FiringProgress) -> list[str]:
    """The steps under way of a sub-SOP: `draft`, `chapter/draft` two deep."""
    return list(dict.fromkeys("/".join(steps_in(one)[1:]) for one in firing.inside))


_TAKES: dict[str, Callable[[Progress, Mapping[str, Any], float], None]] = {
    "run_opened": Progress._opened, "resumed": Progress._resumed, "fired": Progress._fired, "reserved": Progress._reserved,
    "settled": Progress._settled, "intended": Progress._touched, "observed": Progress._touched, "asked": Progress._asked,
    "answered": Progress._answered, "finished": Progress._finished, "failed": Progress._failed,
    "committed": Progress._committed, "inner": Progress._inner, "run_ended": Progress._ended}
