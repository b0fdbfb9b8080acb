"""The scheduler: exactly the firing rules of the language, on structured concurrency.

It decides which steps fire, journals each firing, and hands it to the fan-out. What it learns, it learns from the bus
and from nothing else: a commit is a message. It knows no model, no tool and no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from time import time
from typing import Any

from metaflow_agents.engine.failing import unless_stopped
from metaflow_agents.engine.progress import RunProgress
from metaflow_agents.engine.scope import Scopes
from metaflow_agents.engine.step_execution import Fanout
from metaflow_agents.engine.suspension import Lot
from metaflow_agents.errors import AnswerInvalid, BudgetExceeded, ExpressionError, failure_of
from metaflow_agents.journal.bus import Subscription
from metaflow_agents.journal.run_context import RunContext
from metaflow_agents.journal.state import Firing
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING, evaluate, truthy
from metaflow_agents.schema.event import Committed, Fired, Outcome, RunEnded, Settled
from metaflow_agents.schema.keys import LOOK, firing_key, parse_firing
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.graph import SOPGraph, needed, outputs_of, reads, triggers


class Scheduler:
    """Runs a program from wherever its journal stands to the point where nothing runs and nothing is ready."""

    def __init__(self, context: RunContext, graph: SOPGraph, scopes: Scopes, fanout: Fanout, *, until: str | None = None,
                 progress: RunProgress | None = None) -> None:
        self._sop, self._graph, self._bus, self._state = context.sop, graph, context.bus, context.state
        self._values, self._scopes, self._fanout, self._until = context.values, scopes, fanout, until
        self._running: dict[str, str] = {}                     # step → its firing, from the decision to the commit
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._parking, self._progress = fanout.parking, progress
        self._ready: set[str] = set()
        # What a step's readiness hangs on, looked up at every commit: whether it is ready changes with these alone.
        self._triggers = {name: triggers(step) for name, step in graph.steps.items()}
        self._needed = {name: needed(step) for name, step in graph.steps.items()}
        self._readers: dict[str, set[str]] = {}
        for name, step in graph.steps.items():
            for artifact in reads(step):
                self._readers.setdefault(artifact, set()).add(name)

    async def run(self) -> RunEnded:
        """Goes on until the run rests, and says how it ended; the event is not yet journalled.

        Raises what stops a run (StepFailed, JournalError, …) after every activation was cancelled. Raises BudgetExceeded where
        all that is left has met a cap, or waits for answers.
        """
        heard: list[type[Committed | Settled]] = [Committed] if self._progress is None else [Committed, Settled]
        async with self._bus.handed(*heard) as commits:
            try:
                async with asyncio.TaskGroup() as group:
                    lot = Lot(self._parking, group, lambda: self._all_rest(commits), commits.close)
                    for firing in list(self._state.active.values()):
                        self._start(group, firing)
                    reached = await self._until_rest(group, commits, lot)
                    asked = (self._parking.answers.waiting,) if self._parking.any else ()
                    lot.leave()
                    for task in self._tasks.values():          # what is left is parked: it is entered again by a resume
                        task.cancel()
            except BaseExceptionGroup as failures:
                raise failure_of(failures) from failures
        if self._running and not reached:
            if self._parking.capped:
                raise BudgetExceeded(*(told for error in self._parking.capped for told in error.told), *asked)
            return RunEnded(outcome="waiting", reason=self._parking.answers.waiting())
        return self._end(reached)

    async def _until_rest(self, group: asyncio.TaskGroup, commits: Subscription[tuple[int, Committed | Settled]],
                          lot: Lot) -> bool:
        """Fires what may fire after each commit, until nothing runs or all that does is parked. Whether `until` was reached."""
        reached = False
        touched = set(self._graph.steps)
        while True:
            if not reached:
                self._fire(group, touched)
                self._look(group)
            if not self._running:
                return reached
            lot.look()
            try:
                _, event = await commits.get()
            except StopAsyncIteration:
                return reached
            if isinstance(event, Settled):
                touched = set()
                continue
            touched = self._touched(event)
            if event.firing is not None:
                step, _ = parse_firing(event.firing)
                self._running.pop(step, None)
                self._tasks.pop(step, None)
                reached = reached or step == self._until

    def _all_rest(self, commits: Subscription[tuple[int, Committed | Settled]]) -> bool:
        return not commits.queued and self._parking.rest_all(self._running.values())

    def _start(self, group: asyncio.TaskGroup, firing: Firing) -> None:
        looks = self._progress is not None and firing.step == LOOK
        run = partial(self._looked, self._progress) if self._progress is not None and looks else self._fanout.run
        self._running[firing.step] = firing.key
        self._tasks[firing.step] = group.create_task(unless_stopped(partial(run, firing)), name=firing.key)

    def _look(self, group: asyncio.TaskGroup) -> None:
        """Begins a look at the run where one is due, beside whatever is under way; one that is due at the end comes before it."""
        if self._progress is not None and LOOK not in self._running and self._progress.due:
            event = self._progress.fired()
            self._bus.post(event)
            self._start(group, self._state.active[firing_key(event.step, event.round)])

    async def _looked(self, progress: RunProgress, firing: Firing) -> None:
        try:
            await progress.run(firing)
        except BudgetExceeded as error:
            with self._parking.rest(firing.key):
                await self._parking.closed(firing.key, error)

    def _touched(self, event: Committed) -> set[str]:
        """The steps that a commit may have made ready, or no longer ready: its own, and those that read what it made."""
        found = set().union(*(self._readers.get(version.artifact, ()) for version in event.versions))
        return found if event.firing is None else found | ({parse_firing(event.firing)[0]} - {LOOK})

    def _fire(self, group: asyncio.TaskGroup, touched: set[str]) -> None:
        """Rule 8: unblocked ready steps start, one decision after the other; one write for all of them."""
        fired: list[Fired] = []
        ready = self._ready
        ready -= touched
        ready |= {name for name in touched if self._is_ready(name)}
        while ready:
            running = set(self._running)
            free = [name for name in ready if not self._graph.blockers(name, running, ready - {name})]
            if not free:
                break
            name = min(free, key=lambda step: (-self._priority(step), self._graph.place[step]))
            ready.discard(name)
            step, round_ = self._graph.steps[name], self._state.fired.get(name, 0) + 1
            read = {artifact: self._state.version(artifact) for artifact in reads(step)}
            try:
                items = self._fanout.items(step, read, round_)
            except (AnswerInvalid, ExpressionError) as error:
                raise ExpressionError(f"steps.{name}.foreach: {error}") from None
            fired.append(Fired(at=time(), step=name, round=round_, read=read,
                               items=None if items is None else tuple(item.key for item in items)))
            self._running[name] = firing_key(name, round_)
        if fired:
            self._bus.post(*fired)                  # on disk with, or before, the first thing that their activations do
            for event in fired:
                self._start(group, self._state.active[firing_key(event.step, event.round)])

    def _triggered(self, name: str) -> bool:
        """Rule 4."""
        cursor = self._state.cursor.get(name)
        return cursor is None or any(
            self._state.version(artifact) > cursor.get(artifact, 0) and self._state.maker.get(artifact) != name
            for artifact in self._triggers[name])

    def _is_ready(self, name: str) -> bool:
        """Rule 5."""
        step = self._graph.steps[name]
        return (name not in self._running
                and self._triggered(name)
                and all(self._state.version(artifact) for artifact in self._needed[name])
                and not self._capped(step, name)
                and self._holds(step, name))

    def _capped(self, step: Step, name: str) -> bool:
        """Rule 3."""
        return step.rounds is not None and self._state.fired.get(name, 0) >= step.rounds

    def _holds(self, step: Step, name: str) -> bool:
        return step.when is None or truthy(self._now(step, name, "when", step.when))

    def _priority(self, name: str) -> float:
        step = self._graph.steps[name]
        if step.priority is None:
            return 0.0
        value = self._now(step, name, "priority", step.priority)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ExpressionError(f"steps.{name}.priority: `{step.priority}` must give a number, and gave {value!r}")
        return float(value)

    def _now(self, step: Step, name: str, key: str, expression: str) -> Any:
        latest = {artifact: self._state.version(artifact) for artifact in reads(step)}
        scope = self._scopes.of(step, latest, self._state.fired.get(name, 0) + 1)
        try:
            return evaluate(expression, scope)
        except ExpressionError as error:
            raise ExpressionError(f"steps.{name}.{key}: {error}") from None

    def _end(self, until: bool) -> RunEnded:
        """Rule 10."""
        if until:
            return RunEnded(outcome="until", reason=f"{self._until} is done")
        try:
            fine, reason = succeeded(self._sop, self._values, self._scopes.run_facts())
        except ExpressionError as error:
            fine, reason = False, f"`success`: {error}"
        outcome: Outcome = "success" if fine else "failure"
        return RunEnded(outcome=outcome, reason=reason, never=self._never())

    def _never(self) -> dict[str, str]:
        """What never fired, and why."""
        told = {}
        for name, step in self._graph.steps.items():
            if self._state.fired.get(name):
                continue
            absent = [artifact for artifact in needed(step) if not self._state.version(artifact)]
            told[name] = f"there is no {', '.join(absent)}" if absent else f"`when: {step.when}` never held"
        return told


def everything(sop: SOP, values: Values) -> dict[str, Any]:
    """All inputs and artifacts by name, and `history`, as `success` and the `expect` of tests see them."""

    def history(name: str) -> list[Any]:
        return [values.at(name, number + 1) for number in range(values.versions(name))]

    return {**{name: values.latest(name) for name in (*sop.inputs, *sop.artifacts)}, "history": history}


def succeeded(sop: SOP, values: Values, run: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the run did what it is for, and if not, why. Raises ExpressionError."""
    if sop.success is not None:
        fine = truthy(evaluate(sop.success, {**everything(sop, values), "run": run}))
        return fine, "" if fine else f"`success: {sop.success}` does not hold"
    absent = [name for name in outputs_of(sop) if values.latest(name) is MISSING]
    return not absent, "" if not absent else f"not made: {', '.join(absent)}"
