"""What a step waits for that has not fired, or may fire again: missing artifacts, steps before it, a condition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from metaflow_agents.sop.graph import SOPGraph, needed, triggers
from metaflow_agents.views.wording import listed


class Standing(Protocol):
    """How a run stands: `journal.state.RunState`, and the fold of a page."""

    @property
    def fired(self) -> Mapping[str, int]:
        """Step → firings so far."""
        ...

    @property
    def cursor(self) -> Mapping[str, Mapping[str, int]]:
        """Step → the versions that its last firing read."""
        ...

    @property
    def maker(self) -> Mapping[str, str | None]:
        """Artifact → step of its latest version."""
        ...

    def version(self, artifact: str) -> int:
        """Number of its latest version; 0 where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Waits:
    """`running`: gives the steps that have a firing under way."""

    graph: SOPGraph
    state: Standing
    running: Callable[[], Collection[str]]

    def triggered(self, name: str) -> bool:
        """Whether something new is there for the step, or it never fired, and rounds remain (rule 4)."""
        step, state = self.graph.steps[name], self.state
        fired = state.fired.get(name, 0)
        if step.rounds is not None and fired >= step.rounds:
            return False
        seen = state.cursor.get(name, {})
        return not fired or any(state.version(artifact) > seen.get(artifact, 0) and state.maker.get(artifact) != name
                                for artifact in triggers(step))

    def told(self, name: str) -> str:
        """`waits for verdict (judge)`, `after write`, `when not verdict.fine`, `ready`."""
        step = self.graph.steps[name]
        if absent := self._absent(name):
            makers = [f"{artifact} ({', '.join(self.graph.makers.get(artifact, ()))})" for artifact in absent]
            return f"waits for {listed(makers, 3)}"
        running = set(self.running())
        ready = {other for other in self.graph.steps
                 if other not in running and other != name and self.triggered(other)
                 and not self._absent(other) and self.graph.steps[other].when is None}
        blockers = sorted(self.graph.blockers(name, running, ready), key=self.graph.place.__getitem__)
        if blockers:
            return f"after {listed(blockers, 3)}"
        return "ready" if step.when is None else f"when {step.when}"

    def _absent(self, name: str) -> list[str]:
        return [artifact for artifact in needed(self.graph.steps[name]) if not self.state.version(artifact)]
