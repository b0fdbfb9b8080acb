"""The scheduler against the reference interpreter, in lockstep: after every completion both run the same activations.

That the sets of running activations agree at every instant says more than equal logs: nothing starts too early, and all
that the rules leave free runs at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from random_sops import random_sop, random_sops
from reference import Procedure, Reference, play, to_sop
from reference_runner import Machine
from tiers import examples, some

from metaflow_agents.engine import attempts
from metaflow_agents.engine import step_execution as fanout
from metaflow_agents.engine.step_execution import Fanout
from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph, needed

EXAMPLES = 2000
settings.register_profile("many", max_examples=examples(EXAMPLES), deadline=None, database=None,
                          suppress_health_check=list(HealthCheck))


async def in_lockstep(procedure: Procedure, seed: int) -> Reference:
    """Plays both, ending the same activation in both each time. Asserts that they agree throughout."""
    reference, pick = Reference(procedure), random.Random(seed)
    bounds = SOPGraph(SOP.model_validate(to_sop(procedure))).firing_bounds()
    async with Machine(procedure) as machine:
        while reference.ended is None:
            assert set(machine.runner.running) == set(reference.running)
            ran = pick.choice(sorted(reference.running, key=repr))
            reference.finish(ran)
            await machine.finish(ran)
        assert machine.ended == reference.ended
        assert machine.artifacts() == reference.artifacts
        assert sorted(machine.log(), key=repr) == sorted(
            ((f.step.name, f.round, tuple(sorted(f.read.items())), None if f.step.foreach is None else tuple(f.items))
             for f in reference.log), key=repr)
        for step, count in machine.journal.state.fired.items():
            assert count <= bounds[step], f"{step} fired {count} times, bound {bounds[step]}"
    return reference


@pytest.mark.one_in(2)
@settings(settings.get_profile("many"))
@given(random_sops())
def test_equal_to_the_reference(procedure: Procedure) -> None:
    asyncio.run(in_lockstep(procedure, 7))


async def at_random(procedure: Procedure, seed: int) -> tuple[Any, Any]:
    """Plays the scheduler alone in one timing: its firings and what it made."""
    pick = random.Random(seed)
    async with Machine(procedure) as machine:
        while machine.ended is None:
            assert machine.runner.running, "a deadlock: the run has not ended and nothing runs"
            await machine.finish(pick.choice(sorted(machine.runner.running, key=repr)))
        return sorted(machine.log(), key=repr), machine.artifacts()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_timing_changes_nothing(first: int) -> None:
    for seed in some(range(first, first + 50)):
        procedure = random_sop(seed)
        if play(procedure, seed).ended == "stopped":
            continue                                       # `on_fail: stop` is the exception that the language names
        once = asyncio.run(at_random(procedure, 1))
        assert asyncio.run(at_random(procedure, 2)) == once, f"seed {seed}"


async def outrun(procedure: Procedure, seed: int) -> list[str]:
    """What a firing read that got a new version while it ran, in one timing of the scheduler."""
    pick, found = random.Random(seed), []
    async with Machine(procedure) as machine:
        state = machine.journal.state
        while machine.ended is None:
            await machine.finish(pick.choice(sorted(machine.runner.running, key=repr)))
            found += [f"{firing.key} read version {number} of {artifact}" for firing in state.active.values()
                      for artifact, number in firing.read.items() if state.version(artifact) != number]
    return found


@pytest.mark.one_in(4)
def test_nothing_that_a_running_firing_reads_gets_a_new_version() -> None:
    """Decision 39: so no newer plan ever finds items of the older one under way."""
    for seed in some(range(400)):
        assert asyncio.run(outrun(random_sop(seed), seed)) == [], f"seed {seed}"


@pytest.mark.parametrize("rule", ["7a", "7b"])
def test_without_its_rule_plans_are_outrun(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference_runner.SOPGraph", {"7a": Without7a, "7b": Without7b}[rule])
    assert any(asyncio.run(outrun(random_sop(seed), seed)) for seed in range(400))


class Without7a(SOPGraph):
    def blockers(self, step: str, running: Any, ready: Any) -> frozenset[str]:
        return self._waits_ready[step] & ready


class Without7b(SOPGraph):
    def blockers(self, step: str, running: Any, ready: Any) -> frozenset[str]:
        return super().blockers(step, running, {a for a in ready if self.loop[a] == self.loop[step]})


class Without7c(SOPGraph):
    def blockers(self, step: str, running: Any, ready: Any) -> frozenset[str]:
        return super().blockers(step, running, {a for a in ready if self.loop[a] != self.loop[step]})


class RankByPlace(SOPGraph):
    """Rank without the stage."""

    def rank(self, step: str) -> tuple[int, int]:
        return 0, self.place[step]


class LateStage(SOPGraph):
    """A stage by the latest maker instead of the earliest."""

    @property
    def stage(self) -> dict[str, int]:  # type: ignore[override]
        stage = {name: place + 1 for name, place in self.place.items()}
        return {name: 1 + max((stage[m] for a in needed(s) for m in self.makers.get(a, ())), default=0)
                for name, s in self.steps.items()}


def _ignoring(method: str) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(f"metaflow_agents.engine.scheduler.{method}", lambda *_: ())


def _patched(target: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(target, value)


def _graph(graph: type[SOPGraph]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr("reference_runner.SOPGraph", graph)


def _always_triggered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("metaflow_agents.engine.scheduler.Scheduler._triggered", lambda self, name: not self._state.fired.get(name))


def _own_versions_trigger(patch: pytest.MonkeyPatch) -> None:
    from metaflow_agents.engine.scheduler import Scheduler, triggers

    def triggered(self: Scheduler, name: str) -> bool:
        cursor = self._state.cursor.get(name)
        return cursor is None or any(self._state.version(a) > cursor.get(a, 0) for a in triggers(self._graph.steps[name]))

    patch.setattr(Scheduler, "_triggered", triggered)


def _no_reuse(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attempts.Attempts, "digest", lambda self, item, prior: repr((item, id(prior))))


def _nothing_dropped(patch: pytest.MonkeyPatch) -> None:
    original = attempts.Attempts.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        self.revises = True

    patch.setattr(attempts.Attempts, "__init__", init)


def _after_ignored(patch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    walk = fanout.walk
    patch.setattr(fanout, "walk", lambda foreach, scope: [replace(item, after=()) for item in walk(foreach, scope)])


def _parallel_ignored(patch: pytest.MonkeyPatch) -> None:
    original = Fanout.__init__

    def init(self: Any, program: Any, *args: Any, **more: Any) -> None:
        steps = {name: step.model_copy(update={"foreach": step.foreach and step.foreach.model_copy(update={"parallel": None})})
                 for name, step in program.sop.steps.items()}
        original(self, program.model_copy(update={"sop": program.sop.model_copy(update={"steps": steps})}), *args, **more)

    patch.setattr(Fanout, "__init__", init)


def _every_failure_skips(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fanout._Job, "_failure_version", lambda self, blobs: [])


def _no_retries(patch: pytest.MonkeyPatch) -> None:
    original = attempts.Attempts.__init__

    def init(self: Any, means: Any, step: Any, firing: Any) -> None:
        original(self, means, step.model_copy(update={"retries": 0}), firing)

    patch.setattr(attempts.Attempts, "__init__", init)


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "rule 3: rounds do not cap": _patched("metaflow_agents.engine.scheduler.Scheduler._capped", lambda self, step, name: False),
    "rule 4: a new version triggers": _always_triggered,
    "rule 4: made by another step": _own_versions_trigger,
    "rule 5: needs must exist": _ignoring("needed"),
    "rule 5: when must hold": _patched("metaflow_agents.engine.scheduler.Scheduler._holds", lambda self, step, name: True),
    "rule 6: stage in rank": _graph(RankByPlace),
    "rule 6: as early as any maker allows": _graph(LateStage),
    "rule 7a": _graph(Without7a),
    "rule 7b": _graph(Without7b),
    "rule 7c": _graph(Without7c),
    "rule 8: priority": _patched("metaflow_agents.engine.scheduler.Scheduler._priority", lambda self, name: 0.0),
    "items: reuse by digest": _no_reuse,
    "items: what is gone is dropped": _nothing_dropped,
    "items: after": _after_ignored,
    "items: parallel": _parallel_ignored,
    "failures: on_fail makes": _every_failure_skips,
    "failures: retries": _no_retries,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rule", MUTATIONS)
def test_each_rule_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one rule taken out of the engine, the lockstep finds a procedure on which it differs."""
    MUTATIONS[rule](monkeypatch)
    for seed in range(EXAMPLES):
        try:
            asyncio.run(asyncio.wait_for(in_lockstep(random_sop(seed), seed), 20))
        except Exception:          # an assertion of the lockstep, or the engine running into what the rule prevents
            monkeypatch.undo()
            asyncio.run(in_lockstep(random_sop(seed), seed))           # with the rule in its place they agree
            return
    pytest.fail(f"{EXAMPLES} random procedures do not notice that this is missing: {rule}")
