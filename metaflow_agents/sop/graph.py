"""The step graph: who waits for whom, by the static order of the language ("When a step fires", rules 3, 6 and 7).

Pure: it reads a `SOP` and answers questions. An edge leads from the maker of an artifact to each step that reads it,
through `needs`, `wants` or `sees`; a step's own artifact gives no edge to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import cached_property, lru_cache
from graphlib import TopologicalSorter

from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step

NEVER = 10**6
"""The stage of a step that can never fire."""


def artifact_of(entry: str) -> str:
    """The artifact that an entry of `needs`, `wants` or `sees` names: `design.package` → `design`."""
    return entry.partition(".")[0]


@lru_cache(maxsize=4096)
def _artifacts(*entries: tuple[str, ...]) -> tuple[str, ...]:
    """The artifacts of some lists of entries, each once."""
    return tuple(dict.fromkeys(artifact_of(entry) for written in entries for entry in written))


def triggers(step: Step) -> tuple[str, ...]:
    """Artifacts whose new versions trigger the step, each once, in the order written."""
    return _artifacts(step.needs, step.wants)


def reads(step: Step) -> tuple[str, ...]:
    """Artifacts that the step reads: needs, wants and sees, each once, in the order written."""
    return _artifacts(step.needs, step.wants, step.sees)


def needed(step: Step) -> tuple[str, ...]:
    """Artifacts that must exist before the step can fire."""
    return _artifacts(step.needs)


def makes(step: Step) -> tuple[str, ...]:
    """Artifacts that a firing of the step can make: its own, and the one that tells of its failure."""
    failure = step.on_fail.artifact
    return (step.makes.artifact,) if failure is None else (step.makes.artifact, failure)


def outputs_of(sop: SOP) -> tuple[str, ...]:
    """What the run is for: `outputs`, by default what steps make and nobody reads; a notice of failure is no output."""
    if sop.outputs is not None:
        return sop.outputs
    read = {artifact for step in sop.steps.values() for artifact in reads(step)}
    made = {step.makes.artifact for step in sop.steps.values()}
    return tuple(name for name in sop.artifacts if name in made and name not in read)


class SOPGraph:
    """Static order of a SOP's steps. Built once; all questions are answered from sets computed at first use."""

    def __init__(self, sop: SOP) -> None:
        self.steps: dict[str, Step] = dict(sop.steps)
        self.given: frozenset[str] = frozenset(sop.inputs) | {
            name for name, artifact in sop.artifacts.items() if artifact.has_initial
        } | ({sop.progress.makes} if sop.progress is not None and sop.progress.makes is not None else set())
        self.makers: dict[str, tuple[str, ...]] = {}
        for name, step in self.steps.items():
            for artifact in makes(step):
                self.makers[artifact] = (*self.makers.get(artifact, ()), name)
        self.place = {name: index for index, name in enumerate(self.steps)}

    @cached_property
    def arrows(self) -> dict[str, frozenset[str]]:
        """Step → the steps that make what it reads, itself left out."""
        return {
            name: frozenset(maker for artifact in reads(step) for maker in self.makers.get(artifact, ()) if maker != name)
            for name, step in self.steps.items()
        }

    @cached_property
    def loop(self) -> dict[str, int]:
        """Step → number of its strongly connected component: those from which it is reached and which it reaches."""
        numbers: dict[str, int] = {}
        for name in self.steps:
            if name not in numbers:
                number = len(numbers)
                numbers[name] = number
                numbers.update((other, number) for other in self._before[name] if name in self._before[other])
        return numbers

    def in_loop(self, step: str) -> bool:
        """Whether the step stands on a cycle with another step."""
        return sum(number == self.loop[step] for number in self.loop.values()) > 1

    @cached_property
    def stage(self) -> dict[str, int]:
        """Step → 1 + the latest of its needs, each as early as any maker allows. Absent: it can never fire."""
        stage: dict[str, int] = {}
        lacking = {name: set(needed(step)) - self.given for name, step in self.steps.items()}
        wanted: dict[str, list[str]] = {}
        for name, artifacts in lacking.items():
            for artifact in artifacts:
                wanted.setdefault(artifact, []).append(name)
        started, now = [name for name, artifacts in lacking.items() if not artifacts], 0
        while started:                                      # stage by stage, so that the earliest maker of each need counts
            now += 1
            stage.update(dict.fromkeys(started, now))
            made = {artifact for name in started for artifact in makes(self.steps[name])}
            closer = dict.fromkeys(name for artifact in made for name in wanted.pop(artifact, ()))
            for name in closer:
                lacking[name] -= made
            started = [name for name in closer if not lacking[name]]
        return stage

    def rank(self, step: str) -> tuple[int, int]:
        """(stage, place in the file)."""
        return self.stage.get(step, NEVER), self.place[step]

    @cached_property
    def _before(self) -> dict[str, frozenset[str]]:
        """Step → all other steps from which a path leads to it."""
        return {name: found - {name} for name, found in ancestors(self.arrows).items()}

    @cached_property
    def _waits_running(self) -> dict[str, frozenset[str]]:
        """Rule 7a: step → those that hold it up while they run."""
        return {
            name: self._before[name] | {
                maker for artifact in makes(step) for maker in self.makers[artifact] if maker != name
            }
            for name, step in self.steps.items()
        }

    @cached_property
    def _waits_ready(self) -> dict[str, frozenset[str]]:
        """Rules 7b and 7c: step → those that hold it up while they are ready."""
        rising = ancestors({
            name: frozenset(a for a in makers if self.loop[a] != self.loop[name] or self.rank(a) < self.rank(name))
            for name, makers in self.arrows.items()
        })
        waits = {}
        for name in self.steps:
            other_loops = {a for a in self._before[name] if self.loop[a] != self.loop[name]}
            same_loop = {a for a in rising[name] if self.loop[a] == self.loop[name] and a != name}
            waits[name] = frozenset(other_loops | same_loop)
        return waits

    def blockers(self, step: str, running: Set[str], ready: Set[str]) -> frozenset[str]:
        """The steps that a ready step waits for now; empty where it may start (rule 7)."""
        return (self._waits_running[step] & running) | (self._waits_ready[step] & ready)

    def leads(self, first: str, second: str) -> bool:
        """Whether a path leads from one step to the other."""
        return first in self._before[second]

    def unordered_makers(self) -> list[tuple[str, str, str]]:
        """(artifact, step, step) for each two makers of one artifact that no path joins."""
        return [
            (artifact, a, b)
            for artifact, names in self.makers.items()
            for index, a in enumerate(names) for b in names[index + 1:]
            if a != b and not self.leads(a, b) and not self.leads(b, a)
        ]

    def unbounded_cycles(self) -> list[list[str]]:
        """Cycles in which no step has `rounds`, one for each component that holds one, starting at its first step."""
        free = self._uncapped()
        before = ancestors(free)
        on_cycle = {name for name in free if name in before[name]}
        if not on_cycle:
            return []
        import networkx as nx  # heavy, and needed only for a SOP that is wrong

        graph: nx.DiGraph[str] = nx.DiGraph((maker, name) for name, makers in free.items() for maker in makers)
        cycles = []
        for component in nx.strongly_connected_components(graph.subgraph(on_cycle)):
            start = min(component, key=self.place.__getitem__)
            cycles.append([edge[0] for edge in nx.find_cycle(graph.subgraph(component), start)])
        return sorted(cycles, key=lambda cycle: self.place[cycle[0]])

    def never(self) -> list[str]:
        """Steps without a finite stage: they can never fire."""
        return [name for name in self.steps if name not in self.stage]

    def firing_bounds(self) -> dict[str, int]:
        """Step → the most firings that any run can have of it. Only for a graph without unbounded cycles.

        A step outside every loop fires once at most: all that could trigger it rests before it starts, for good.
        Inside a loop the first firing takes in all that comes from outside and one version of each need; each further
        firing takes in at least one new version that the loop makes. A first pass takes `rounds` for what it does not know
        yet, so the loops are gone through again while that gives less.
        """
        bounds: dict[str, int] = {}
        for name in self._capped_last():
            bounds[name] = self._most(name, bounds) if self.in_loop(name) else int(name in self.stage)
        looping = [name for name in self.steps if self.in_loop(name)]
        for _ in looping:
            tighter = {name: self._most(name, bounds) for name in looping}
            if all(bounds[name] == most for name, most in tighter.items()):
                break
            bounds |= tighter
        return {name: bounds[name] for name in self.steps}

    def _most(self, name: str, bounds: dict[str, int]) -> int:
        """The most firings of a step inside a loop, while its neighbours keep to `bounds`."""
        if name not in self.stage:
            return 0
        step = self.steps[name]
        fresh = {artifact: self._new_versions(artifact, name, bounds) for artifact in triggers(step)}
        taken = sum(1 for artifact in needed(step) if not self._comes_from_outside(artifact, name))
        most = 1 + sum(fresh.values()) - taken
        return max(0, most if step.rounds is None else min(most, step.rounds))

    def _capped_last(self) -> Iterable[str]:
        """Steps in an order in which each uncapped one comes after the uncapped ones that feed it."""
        yield from TopologicalSorter(self._uncapped()).static_order()
        yield from (name for name, step in self.steps.items() if step.rounds is not None)

    def _uncapped(self) -> dict[str, frozenset[str]]:
        """Step without `rounds` → such steps that make what it reads."""
        free = {name for name, step in self.steps.items() if step.rounds is None}
        return {name: self.arrows[name] & free for name in self.steps if name in free}

    def _new_versions(self, artifact: str, reader: str, bounds: dict[str, int]) -> int:
        """How many versions the other steps of the reader's loop make at most."""
        inside = [m for m in self.makers.get(artifact, ()) if m != reader and self.loop[m] == self.loop[reader]]
        return sum(bounds.get(m, self.steps[m].rounds or 0) for m in inside)

    def _comes_from_outside(self, artifact: str, reader: str) -> bool:
        return artifact in self.given or any(self.loop[m] != self.loop[reader] for m in self.makers.get(artifact, ()))


def ancestors(arrows: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
    """Node → all from which a path leads to it; itself only where it stands on a cycle. `arrows`: node → its predecessors."""
    found = {}
    for node, first in arrows.items():
        seen: set[str] = set()
        open_ends = list(first)
        while open_ends:
            other = open_ends.pop()
            if other not in seen:
                seen.add(other)
                open_ends.extend(arrows[other])
        found[node] = frozenset(seen)
    return found
