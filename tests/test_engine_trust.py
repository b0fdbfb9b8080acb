"""Labels against a reference that knows no labels: the graph of who read what, out of the journal, and what is reachable in it.

Random procedures with random untrusted inputs, steps that trust artifacts by name, steps that take in more (a page), people's
own words, and narrow schemas; in random timings, cut anywhere in the journal and gone on with.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest
from random_sops import random_sop
from reference import Procedure, to_sop
from reference_runner import Held, Machine
from tiers import ALL, some

from metaflow_agents.engine import step_execution as fanout
from metaflow_agents.engine.labels import Label, Labels
from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.state import RunState
from metaflow_agents.schema.event import Committed, Event, Failed, Finished, Fired
from metaflow_agents.schema.keys import parse_activation
from metaflow_agents.schema.program import Program
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.trust import joined

NARROW = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 1_000_000}}, "required": ["n"],
          "additionalProperties": False}
_DIGEST = re.compile(rb"\b[0-9a-f]{64}\b")


class Scene:
    """A procedure, and who of it brings in what from outside."""

    def __init__(self, seed: int) -> None:
        r = random.Random(f"trust {seed}")
        self.seed, self.procedure = seed, random_sop(seed)
        given = {**self.procedure.given, **self.procedure.initial}
        self.untrusted = {name: f"the input {name}" for name in given if r.random() < 0.6}
        names = [step.name for step in self.procedure.steps]
        self.fetching = {name for name in names if r.random() < 0.12}
        self.human = {name for name in names if r.random() < 0.1} - self.fetching
        self.prior: dict[str, list[str]] = {}                    # activation → the items that it came after, as it was told
        data = to_sop(self.procedure)
        for step in self.procedure.steps:
            if r.random() < 0.25:
                data["steps"][step.name]["trusts"] = r.sample(sorted(set(step.reads)), 1)
            if step.name in self.fetching:
                data["steps"][step.name]["tools"] = ["fetch"]
        kinds = self.procedure.kinds
        narrow = {name: NARROW for name in data["artifacts"]
                  if kinds.get(name, "data") in ("data", "collection") and r.random() < 0.15}
        self.program = Program(sop=SOP.model_validate(data), schemas=narrow)


def outside(scene: Scene) -> type[Held]:
    """A runner that takes in what the scene says."""
    class Outside(Held):
        async def work(self, activation: Activation) -> Work:
            scene.prior[str(activation.key)] = list(activation.scope["prior"])
            work = await super().work(activation)
            step = activation.key.step
            if step in scene.human:
                return replace(work, untrusted="")
            if step in scene.fetching:
                return replace(work, untrusted=joined(f"a page for {step}", activation.untrusted))
            return work
    return Outside


class Reachable:
    """The graph: an edge leads from what was read to what was made of it. Nodes are versions, firings and results."""

    def __init__(self, scene: Scene, events: list[Event]) -> None:
        self._scene, self._sop = scene, scene.program.sop
        self.graph: nx.DiGraph[Any] = nx.DiGraph()
        self.versions: dict[tuple[str, int], str] = {}
        self.results: dict[str, str] = {}                        # activation → the label that the journal has
        self._fired: dict[str, Fired] = {}
        self._latest: dict[tuple[str, str | None], str] = {}     # (step, key) → node of its last result
        self._done: dict[str, dict[str | None, str]] = {}        # firing → key → node of its result
        self._lost: dict[str, list[str]] = {}
        for event in events:
            match event:
                case Fired():
                    self._firing(event)
                case Finished():
                    self._result(event)
                case Failed() if event.final:
                    self._failure(event)
                case Committed():
                    self._commit(event)

    def sources(self, node: Any) -> set[str]:
        """Every source from which a path leads to a node."""
        return {source[1] for source in nx.ancestors(self.graph, node) if source[0] == "source"} if node in self.graph else set()

    def _firing(self, event: Fired) -> None:
        key = f"{event.step}@{event.round}"
        self._fired[key], self._done[key], self._lost[key] = event, {}, []
        step = self._sop.steps[event.step]
        walked = next(s.foreach.names if s.foreach else frozenset() for s in self._scene.procedure.steps if s.name == event.step)
        self.graph.add_nodes_from([("firing", key), ("list", key)])
        for artifact, number in event.read.items():
            if number and artifact not in step.trusts:
                self.graph.add_edge(("version", artifact, number), ("firing", key))
                if artifact in walked:
                    self.graph.add_edge(("version", artifact, number), ("list", key))

    def _result(self, event: Finished) -> None:
        at = parse_activation(event.activation)
        node = ("result", event.activation)
        self.graph.add_node(node)
        self._done[at.firing][at.item] = self._latest[at.step, at.item] = event.activation
        self.results[event.activation] = event.untrusted
        step = self._sop.steps[at.step]
        if at.step in self._scene.human or (step.makes.artifact in self._scene.program.schemas and not step.tools):
            return
        if at.step in self._scene.fetching:
            self.graph.add_edge(("source", f"a page for {at.step}"), node)
        self._reads(event.activation, node)

    def _reads(self, activation: str, node: Any) -> None:
        at = parse_activation(activation)
        self.graph.add_edge(("firing", at.firing), node)
        for key in self._scene.prior[activation]:
            before = self._done[at.firing].get(key) or self._latest[at.step, key]
            self.graph.add_edge(("result", before), node)

    def _failure(self, event: Failed) -> None:
        at = parse_activation(event.activation)
        node = ("failure", event.activation)
        self._reads(event.activation, node)
        self._lost[at.firing].append(event.activation)
        self.results[event.activation] = event.untrusted

    def _commit(self, event: Committed) -> None:
        for version in event.versions:
            node = ("version", version.artifact, version.number)
            self.graph.add_node(node)
            self.versions[version.artifact, version.number] = version.untrusted
            if event.firing is None:
                if version.artifact in self._scene.untrusted:
                    self.graph.add_edge(("source", self._scene.untrusted[version.artifact]), node)
                continue
            fired = self._fired[event.firing]
            step = self._sop.steps[fired.step]
            self.graph.add_edge(("list", event.firing), node)
            if version.artifact != step.makes.artifact:
                self.graph.add_edges_from((("failure", lost), node) for lost in self._lost[event.firing])
                continue
            if self._scene.procedure.kind(version.artifact) in ("files", "collection"):
                self.graph.add_edge(("version", version.artifact, version.number - 1), node)
            made = [*self._done[event.firing].values(), *(self._latest[fired.step, key] for key in event.reused)]
            self.graph.add_edges_from((("result", result), node) for result in made)


def wording(sources: set[str]) -> str:
    """A label as the documentation has it: two names, and whether there are others."""
    first = sorted(sources)[:2]
    return "; ".join([*first, *(["and others"] if len(sources) > 2 else [])])


async def played(scene: Scene, cut: bool) -> list[Event]:
    """The events of a run, in a random timing; cut off at any event, and gone on with by another process, if so asked."""
    pick = random.Random(f"timing {scene.seed} {cut}")
    begun: list[Event] = []
    blobs: dict[str, bytes] = {}
    if cut:
        whole = await _to_the_end(scene, pick, [], {})
        begun, blobs = whole[0][:pick.randint(2, len(whole[0]))], whole[1]
    return (await _to_the_end(scene, pick, begun, blobs))[0]


async def _to_the_end(scene: Scene, pick: random.Random, begun: list[Event],
                      blobs: dict[str, bytes]) -> tuple[list[Event], dict[str, bytes]]:
    machine = Machine(scene.procedure, scene.program, outside(scene), scene.untrusted, begun, blobs)
    async with machine:
        while machine.ended is None:
            await machine.finish(pick.choice(sorted(machine.runner.running, key=repr)))
        events = [event for _, event in machine.journal.events()]
        return events, _blobs(machine.journal, events)


def _blobs(journal: Journal, events: list[Event]) -> dict[str, bytes]:
    """Everything that events name by digest, and what that names."""
    found: dict[str, bytes] = {}
    open_ends = [event.model_dump_json().encode() for event in events]
    while open_ends:
        for name in map(bytes.decode, _DIGEST.findall(open_ends.pop())):
            if name not in found:
                found[name] = journal.blob(name)
                open_ends.append(found[name])
    return found


def differs(scene: Scene, events: list[Event]) -> str | None:
    """Where a label is another one than the graph says."""
    graph = Reachable(scene, events)
    for (artifact, number), told in graph.versions.items():
        if told != (expected := wording(graph.sources(("version", artifact, number)))):
            return f"seed {scene.seed}, {artifact}@{number}: {told!r}, and {expected!r} is reachable"
    for activation, told in graph.results.items():
        node = ("result", activation) if ("result", activation) in graph.graph else ("failure", activation)
        if told != (expected := wording(graph.sources(node))):
            return f"seed {scene.seed}, {activation}: {told!r}, and {expected!r} is reachable"
    return None


@pytest.mark.one_in(8, always=False)
@pytest.mark.parametrize("first", range(0, 500, 100) if ALL else [0])
def test_labels_are_what_is_reachable(first: int) -> None:
    labels = set()
    for seed in range(first, first + 100) if ALL else some(range(500)):
        scene = Scene(seed)
        for cut in (False, True):
            events = asyncio.run(played(scene, cut))
            assert differs(scene, events) is None
            labels |= {version.untrusted.count(";") if version.untrusted else -1
                       for event in events if isinstance(event, Committed) for version in event.versions}
    assert labels == {-1, 0, 1, 2}                              # none, one source, two, more: all of them were met


def _everything_lifts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Labels, "lifts", lambda self, name: True)


def _nothing_lifts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Labels, "lifts", lambda self, name: False)


def _trusts_nothing(patch: pytest.MonkeyPatch) -> None:
    original = Labels.of
    patch.setattr(Labels, "of", lambda self, name, versions: replace(
        found := original(self, name, versions), lifted=found.whole))


def _list_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = Labels.of
    patch.setattr(Labels, "of", lambda self, name, versions: replace(original(self, name, versions), listed=""))


def _reads_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Labels, "of", lambda self, name, versions: Label())


def _base_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = fanout._Job.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        self._base_label = ""

    patch.setattr(fanout._Job, "__init__", init)


def _prior_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = fanout.Attempts.until_done
    patch.setattr(fanout.Attempts, "until_done", lambda self, item, prior, heard="": original(self, item, prior))


def _reused_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = RunState._committed

    def committed(self: RunState, event: Committed) -> None:
        original(self, event)
        for results in self.last.values():
            results.update((key, replace(result, untrusted="")) for key, result in results.items())

    patch.setattr(RunState, "_committed", committed)


def _done_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = RunState._finished

    def finished(self: RunState, event: Finished) -> None:
        original(self, event.model_copy(update={"untrusted": ""}))

    patch.setattr(RunState, "_finished", finished)


def _failures_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = RunState._failed
    patch.setattr(RunState, "_failed", lambda self, event: original(self, event.model_copy(update={"untrusted": ""})))


MUTATIONS = {
    "every artifact is narrow": _everything_lifts,
    "no artifact is narrow": _nothing_lifts,
    "nothing is trusted by name": _trusts_nothing,
    "the list that is walked": _list_forgotten,
    "what is read": _reads_forgotten,
    "what files and collections are laid over": _base_forgotten,
    "what the items before gave": _prior_forgotten,
    "items that are reused": _reused_forgotten,
    "items that were done before a crash": _done_forgotten,
    "words of failures": _failures_forgotten,
}


SEEN = {"items that are reused": [466], "items that were done before a crash": [51]}
"""Procedures that show what few do: they are tried first."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", MUTATIONS)
def test_each_way_of_a_label_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one way taken out of the engine, a random procedure shows it."""
    MUTATIONS[what](monkeypatch)
    for seed in (*SEEN.get(what, ()), *range(500)):
        scene = Scene(seed)
        if any(differs(scene, asyncio.run(played(scene, cut))) for cut in (False, True)):
            return
    pytest.fail(f"500 random procedures do not notice that this is missing: {what}")


@pytest.mark.one_in(4)
def test_the_reference_runs_the_same_procedures() -> None:
    kinds = [Scene(seed) for seed in range(200)]
    assert sum(bool(scene.fetching) for scene in kinds) > 30 and sum(bool(scene.human) for scene in kinds) > 30
    assert sum(bool(scene.program.schemas) for scene in kinds) > 30
    assert all(isinstance(scene.procedure, Procedure) for scene in kinds)
