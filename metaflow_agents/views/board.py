"""The live board: every step and running item with its state, who waits for whom, and what was spent against the caps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from metaflow_agents.journal.ledger import Ledger
from metaflow_agents.journal.records import Spending
from metaflow_agents.journal.state import Firing, RunState, Slot
from metaflow_agents.schema.caps import Budget
from metaflow_agents.schema.event import Committed, Event, Failed, Fired, Inner, Observed, Reserved, RunEnded, Settled
from metaflow_agents.schema.keys import ActivationKey, parse_activation, parse_firing
from metaflow_agents.schema.program import Program
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.calling import Calling, tries_told
from metaflow_agents.views.costs import spent_told, sums_told
from metaflow_agents.views.event_log import Minute, minute, models_told, readers, sandbox_told
from metaflow_agents.views.gave import commands_of, is_check, payload_told
from metaflow_agents.views.page import Page, columns, cut, safe
from metaflow_agents.views.waiting import Waits
from metaflow_agents.views.wording import amount, duration, listed, money, short, whole_dollars
from metaflow_agents.views.writing import Writing

Mark = Literal["done", "running", "waiting", "failed", "never"]
_MARKS: dict[Mark, tuple[str, str]] = {
    "done": ("✓", "green"), "running": ("●", "cyan"), "waiting": ("○", "dim"), "failed": ("✗", "red"), "never": ("–", "dim")}
_MESSAGES = 4
_WORDS = 60                 # columns at most for the last words of an answer that is coming in
_TALL = 20                  # lines from which there is room for what roles and models cost
_FEW = 12                   # fewer than that say nothing


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the board; an item stands indented under its step."""

    mark: Mark
    name: str
    what: str
    item: bool = False
    slot: str = ""              # of the activation whose answer may be coming in
    cost: str = ""

    def line(self, page: Page, width: int, writing: Writing) -> str:
        """The line; the name takes `width` columns. What is written at the moment shows with as many words as have room."""
        sign, style = _MARKS[self.mark]
        lead = "     " if self.item else " "
        name = cut(safe(self.name), width)
        gap = " " * (width - columns(name) + 2)
        room = None if page.width is None else max(page.width - len(lead) - width - 4, 8)
        what = ", ".join(filter(None, (safe(self.what), writing.length(self.slot), self.cost)))
        what = what if room is None else cut(what, room)
        shown = what if self.mark in ("running", "failed") else page.paint(what, "dim")
        left = _WORDS if room is None else min(room - columns(what) - 2, _WORDS)
        if left >= _FEW and (end := writing.end(self.slot, left)):
            shown += "  " + page.paint(end, "dim")
        return f"{lead}{page.paint(sign, style)} {name}{gap}{shown}".rstrip()


class Board:
    """What a reader sees of a run under way. `apply` every event; `lines` draws the board as it stands.

    `waiting` tells how many calls wait for a rate limit and `writing` what is being answered, which no event does. `blob` gives
    the JSON stored under a digest: with it what commands, tests and checks gave is shown.
    """

    def __init__(self, program: Program, graph: SOPGraph, state: RunState, budget: Budget,
                 waiting: Callable[[], int] = lambda: 0, writing: Writing | None = None,
                 blob: Callable[[str], Any] | None = None) -> None:
        self._graph, self._state, self._budget, self._waiting = graph, state, budget, waiting
        self._writing = writing or Writing()
        self._calling = Calling(self._writing)
        self._waits = Waits(graph, state, lambda: [firing.step for firing in state.active.values()])
        plain = program.plain()
        self._blob, self._read_by, self._commands = blob, readers(plain), commands_of(plain)
        self._gave: dict[str, str] = {}                       # step that is a command → what it gave last
        self._began: dict[str, float] = {}                    # firing or item → when it was first heard of
        self._messages: deque[Minute] = deque(maxlen=_MESSAGES)
        self._ledger = Ledger()
        self._lost: dict[str, int] = {}                       # step → items that failed for good in its last firing

    def apply(self, event: Event) -> None:
        """One more event of the run."""
        if isinstance(event, Fired):
            self._began[f"{event.step}@{event.round}"] = event.at
            self._lost[event.step] = 0
        elif isinstance(event, Reserved | Observed):
            self._began.setdefault(parse_activation(event.key).slot, event.at)
        elif isinstance(event, Failed) and event.final and not event.stops:
            self._lost[parse_activation(event.activation).step] += 1
        if isinstance(event, Reserved | Settled):
            self._ledger.apply(event)
        self._calling.apply(event)
        told = event
        while isinstance(told, Inner):
            self._began.setdefault(parse_activation(told.activation).slot, event.at)
            told = told.event
        given = told is not event and isinstance(told, Committed) and told.firing is None
        if (isinstance(told, Committed | Failed | RunEnded) and not given) or self._complains(event):
            self._messages.append(minute(event.model_dump(mode="json", by_alias=True), self._read_by, self._blob, self._commands))
        if isinstance(event, Committed) and self._blob is not None and event.firing is not None:
            step = parse_firing(event.firing)[0]
            if step in self._commands:
                self._gave[step] = ", ".join(payload_told(self._blob(one.payload)) for one in event.versions)

    def _complains(self, event: Event) -> bool:
        """Whether it is a check that found something."""
        return isinstance(event, Observed) and is_check(event.key) and self._blob is not None \
            and self._blob(event.payload).get("value") is not None

    def lines(self, page: Page, now: float, height: int | None = None) -> list[str]:
        """The board. `now` is Unix time in seconds; `height` how many lines there is room for."""
        head = [*self._head(page, now), *(self._sums(page) if height is None or height >= _TALL else ()), ""]
        tail = [message.line(page) for message in self._messages]
        rows = self.rows(now, None if height is None else max(height - len(head) - len(tail) - 2, 5))
        widths = [max((columns(row.name) for row in rows if row.item is item), default=0) for item in (False, True)]
        if page.width is not None:
            widths = [min(widths[0], max(page.width // 3, 14)), min(widths[1], max(page.width - 34, 14))]
        return [*head, *(row.line(page, widths[row.item], self._writing) for row in rows), *([""] if tail else []), *tail]

    def _sums(self, page: Page) -> list[str]:
        """What each role and each model cost, where there are several."""
        return [page.paint(sums_told({safe(name) or "(none)": one for name, one in sums.items()}, page), "dim")
                for sums in (self._ledger.by["role"], self._ledger.by["model"]) if len(sums) > 1]

    def rows(self, now: float, most: int | None = None) -> list[Row]:
        """Steps in the order of the file, with their items under way.

        Where they are more than `most`, fewer items show, and then steps that rest are left out.
        """
        steps = {name: self._step(name, now) for name in self._graph.steps}
        running = {firing.step: firing for firing in self._state.active.values() if firing.items is not None}
        room = None if most is None else max(most - len(steps), 0)
        each = None if room is None or not running else room // len(running)
        rows: list[Row] = []
        for name, row in steps.items():
            rows.append(replace(row, cost=self._cost(name)))
            if name in running and each != 0:
                rows += self._items(running[name], now, each)
        if most is None or len(rows) <= most:
            return rows
        alive = [row for row in rows if row.mark in ("running", "failed")]
        left = len(rows) - len(alive)
        return [*alive[:most - 1], Row("waiting", "…", f"{amount(left + max(len(alive) - most + 1, 0), 'step')} not shown")]

    def _head(self, page: Page, now: float) -> list[str]:
        spent, budget = self._state.total(), self._budget
        elapsed = self._state.elapsed + (0.0 if self._state.ended else max(now - self._state.latest, 0.0))
        paid = [_against("cost", money(spent.cost, spent.estimated), None if budget.usd is None else whole_dollars(budget.usd))]
        parts = [_against("calls", str(spent.calls), None if budget.calls is None else short(budget.calls)),
                 _against("tokens", short(spent.tokens), None if budget.tokens is None else short(budget.tokens)),
                 *(paid if spent.cost or spent.open_cost or budget.usd is not None else []),
                 _against("time", duration(elapsed), None if budget.time is None else duration(budget.time))]
        opened = self._state.opened
        if opened is None:
            return []
        room = None if page.width is None else page.width - sum(len(part) + 3 for part in parts)
        name = opened.run if room is None else cut(opened.run, max(room, 8))
        asked = f"{opened.entry} with {models_told(self._state.models)}" if self._state.models else opened.entry
        waiting = self._waiting()
        held = f"   {amount(spent.open_calls, 'call')} unanswered, at most {short(spent.open_tokens)} tokens"
        held = held if spent.open_calls else ""
        waits = f"   {amount(waiting, 'call waits', 'calls wait')} for the rate limit" if waiting else ""
        failed = tries_told(self._calling.failed, 0.0)
        waits += f"   failed tries: {failed}" if failed else ""
        if self._state.sandbox:
            asked += f", {sandbox_told(self._state.sandbox)}"
        style = "yellow" if self._state.sandbox == "none" else "dim"
        return [f"{page.paint(name, 'bold')}   {'   '.join(parts)}", page.paint(page.fitted(safe(asked + held + waits)), style)]

    def _step(self, name: str, now: float) -> Row:
        step = self._graph.steps[name]
        firing = next((firing for firing in self._state.active.values() if firing.step == name), None)
        if firing is not None:
            return Row("running", name, self._running(firing, now), slot=firing.key)
        why = None if self._state.ended is None else self._state.ended.never.get(name)
        if why is not None:
            return Row("never", name, why)
        fired = self._state.fired.get(name, 0)
        if self._waits.triggered(name):
            waits = self._waits.told(name)
            return Row("waiting", name, waits if not fired else f"fired {amount(fired, 'time')}; {waits}")
        made = f"{step.makes.artifact}@{self._state.version(step.makes.artifact)}"
        lost = self._lost.get(name, 0)
        rounds = f", {fired} rounds" if fired > 1 else ""
        gave = f": {self._gave[name]}" if self._gave.get(name) else ""
        return Row("failed" if lost else "done", name, f"{made}{gave}{rounds}{f', {lost} failed' if lost else ''}")

    def _running(self, firing: Firing, now: float) -> str:
        since = duration(max(now - self._began.get(firing.key, now), 0.0))
        round_ = f"round {firing.round}, " if firing.round > 1 else ""
        since += ", a person is asked" if firing.questions else ""
        if firing.items is None:
            slot = firing.slots.get(None)
            attempt = f", attempt {slot.attempts + 1}" if slot is not None and slot.attempts else ""
            return f"{round_}{since}{attempt}{_inside(slot)}{self._call(firing.key, now)}"
        lost = f", {len(firing.lost)} failed" if firing.lost else ""
        return f"{round_}{len(firing.done)}/{amount(len(firing.items), 'item')}{lost}, {since}"

    def _items(self, firing: Firing, now: float, most: int | None) -> list[Row]:
        """Items that failed or are under way, and how many others wait."""
        rows, waiting = [], 0
        for item in firing.items or ():
            slot = firing.slots.get(item)
            if item in firing.lost:
                rows.append(Row("failed", item, firing.lost[item], item=True))
            elif item in firing.done:
                continue
            elif slot is not None and (slot.calls or slot.observed or slot.attempts or slot.inner):
                key = ActivationKey(firing.step, firing.round, item, 0).slot
                again = f", attempt {slot.attempts + 1}" if slot.attempts else ""
                told = f"{duration(max(now - self._began.get(key, now), 0.0))}{again}{_inside(slot)}{self._call(key, now)}"
                cost = self._ledger.by["item"].get(f"{firing.step}[{item}]", Spending())
                rows.append(Row("running", item, told, item=True, slot=key, cost=spent_told(cost)))
            else:
                waiting += 1
        shown = rows if most is None or len(rows) < most else rows[:max(most - 1, 0)]
        more = [f"{len(rows) - len(shown)} more under way or failed"] if len(rows) > len(shown) else []
        more += [f"{amount(waiting, 'item')} waiting"] if waiting else []
        return [*shown, *([Row("waiting", "…", ", ".join(more), item=True)] if more else [])]

    def _call(self, slot: str, now: float) -> str:
        told = self._calling.told(slot, now)
        return f", {told}" if told else ""

    def _cost(self, name: str) -> str:
        """What a step cost, with all steps of a sub-SOP that it is."""
        steps = self._ledger.by["step"]
        return spent_told(sum((one for step, one in steps.items() if step.partition("/")[0] == name), Spending()))


def _inside(slot: Slot | None) -> str:
    """Where a sub-SOP is: its steps under way, `, in draft`; `, in write/draft` two deep."""
    if slot is None or slot.inner is None or not slot.inner.active:
        return ""
    return f", in {listed([path for firing in slot.inner.active.values() for path in _paths(firing)], 3)}"


def _paths(firing: Firing) -> list[str]:
    inner = [one for slot in firing.slots.values() if slot.inner is not None for one in slot.inner.active.values()]
    deeper = dict.fromkeys(f"{firing.step}/{path}" for one in inner for path in _paths(one))
    return list(deeper) or [firing.step]


def _against(word: str, used: str, cap: str | None) -> str:
    return f"{word} {used}" if cap is None else f"{word} {used} of {cap}"
