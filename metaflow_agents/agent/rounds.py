"""Over the rounds of a loop: an artifact that does not change, and a test that keeps failing.

Read from the versions up to those of a firing alone, so that a resume sees the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metaflow_agents.agent.loop_detection import Sign
from metaflow_agents.engine.work import Activation
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.keys import parse_firing
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.graph import triggers


def signs(state: RunState, values: Values, step: Step, activation: Activation) -> list[Sign]:
    """What was the same over the latest rounds: what the step made itself, and what triggers it."""
    found = []
    made = [version.payload for version in state.versions.get(step.makes.artifact, ())
            if version.firing is not None and parse_firing(version.firing)[0] == activation.key.step]
    if alike(made) > 1:
        found.append(Sign(alike(made), f"`{step.makes.artifact}` is the same after {alike(made)} rounds"))
    for artifact in triggers(step):
        payloads = [version.payload for version in state.versions.get(artifact, ())][:activation.read.get(artifact, 0)]
        found += _of(artifact, payloads, values)
    return found


def _of(artifact: str, payloads: Sequence[str], values: Values) -> list[Sign]:
    latest = values.plain(payloads[-1]) if len(payloads) > 1 else None
    if latest is None or (isinstance(latest, Mapping) and latest.get("ok") is True):
        return []                           # that a check is content again and again is no sign of anything
    failing = failures(latest)
    if failing:
        # Of each test that fails now: in how many versions in a row it did.
        last = {test: 1 for test in failing}
        for payload in reversed(payloads[:-1]):
            failing = failing & failures(values.plain(payload))
            if not failing:
                break
            last.update((test, last[test] + 1) for test in failing)
        test = max(sorted(last), key=last.__getitem__)
        return [Sign(last[test], f"the test `{test}` failed in {last[test]} rounds in a row")] if last[test] > 1 else []
    times = alike(payloads)
    return [Sign(times, f"`{artifact}` said the same in {times} rounds in a row")] if times > 1 else []


def failures(value: Any) -> frozenset[str]:
    """The ids of the tests that failed, of test results; empty for anything else."""
    listed = value.get("failures") if isinstance(value, Mapping) else None
    return frozenset(str(one["id"]) for one in listed if isinstance(one, Mapping) and "id" in one) \
        if isinstance(listed, list | tuple) else frozenset()


def alike(payloads: Sequence[str]) -> int:
    """How many at the end are equal; 0 of none."""
    return next((back for back, one in enumerate(reversed(payloads)) if one != payloads[-1]), len(payloads))
