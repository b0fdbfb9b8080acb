"""The firing rules of the SOP language once more, independent of the engine: steps, items, reuse, failures, versions.

It reads as the specification does and is slow on purpose: no journal, no concurrency, no files. Timing is explicit. A
machine shows what runs now (`running`); `finish` ends one activation, whichever the caller picks, and then everything
that the rules leave free has started. Work is a plain deterministic function, so the engine can be given the same one.

    machine = Reference(procedure)
    while machine.running:
        machine.finish(pick(machine.running))

Values are JSON. An artifact of data is its value; files are `{"of": {path: text}, "missing": [key]}`; a collection is
`{"of": [[key, value], ...], "missing": [key]}`. What an activation makes is its value, or for files
`{path: text, or None to delete it}`. A missing artifact is read as None.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import networkx as nx

RULES = ("7a", "7b", "7c", "reuse", "drop", "after", "priority")   # what a test may switch off, by `without`
NEVER = 10**6
Key = str | None                            # of an item; None without foreach


class Fails(Exception):
    """A planned failure of one attempt."""


class Work(Protocol):
    """What steps do. `reads`: entry of needs, wants and sees → value; `prior`: transitive `after` key → what it made."""

    def __call__(self, name: str, round_: int, reads: dict[str, Any], item: Any, key: Key,
                 prior: dict[str, Any], attempt: int) -> Any: ...


@dataclass(frozen=True)
class Expr:
    """One expression in two forms: the text that the engine evaluates, and the same in Python.

    Of a step (`in`, `when`, `priority`) it is called with (reads, round), of an item (`key`, `after`, `where`) with
    (item, reads).
    """

    text: str
    of: Callable[..., Any]


@dataclass(frozen=True)
class Foreach:
    in_: Expr
    names: frozenset[str]                                        # the artifacts that `in` names
    key: Expr | None = None                 # None: the items are texts
    after: Expr | None = None
    where: Expr | None = None
    parallel: int | None = None
    as_: str = "item"


@dataclass(frozen=True)
class Step:
    name: str
    makes: str
    needs: tuple[str, ...] = ()             # `design` or `design.package`
    wants: tuple[str, ...] = ()
    sees: tuple[str, ...] = ()
    when: Expr | None = None
    foreach: Foreach | None = None
    rounds: int | None = None
    priority: int | Expr = 0
    retries: int = 0
    on_fail: str | dict[str, str] = "stop"                       # stop | skip | {makes: ARTIFACT}
    pattern: str | None = None                                   # to which files are confined

    @property
    def triggers(self) -> list[str]:
        return [_artifact(entry) for entry in self.needs + self.wants]

    @property
    def reads(self) -> list[str]:
        return [_artifact(entry) for entry in self.needs + self.wants + self.sees]

    @property
    def caught(self) -> str | None:
        """The artifact that tells of its failures."""
        return self.on_fail["makes"] if isinstance(self.on_fail, dict) else None

    @property
    def all_made(self) -> set[str]:
        return {self.makes} | ({self.caught} if self.caught else set())


@dataclass(frozen=True)
class Procedure:
    steps: tuple[Step, ...]
    given: dict[str, Any]                                        # inputs
    work: Work
    kinds: dict[str, str] = field(default_factory=dict)          # artifact → data | files | collection | failure; data by default
    initial: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def order(self) -> Order:
        return Order(self)

    def kind(self, artifact: str) -> str:
        return self.kinds.get(artifact, "data")


def _artifact(entry: str) -> str:
    return entry.partition(".")[0]


class Order:
    """Rule 6, and what `sop check` holds of it: loops, stages, ranks, and who leads to whom."""

    def __init__(self, procedure: Procedure) -> None:
        steps = self.steps = procedure.steps
        graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph = graph
        graph.add_nodes_from(s.name for s in steps)
        graph.add_edges_from((a.name, b.name) for a in steps for b in steps if a is not b and a.all_made & set(b.reads))
        self.loop = {name: loop for loop in map(frozenset, nx.strongly_connected_components(graph)) for name in loop}
        self.stage = self._stages({*procedure.given, *procedure.initial})
        rank = {s.name: (self.stage.get(s.name, NEVER), place) for place, s in enumerate(steps)}
        rising: nx.DiGraph[str] = nx.DiGraph()
        rising.add_edges_from((a, b) for a, b in graph.edges if self.loop[a] == self.loop[b] and rank[a] < rank[b])
        self.leads = {name: nx.descendants(graph, name) for name in graph}
        self.rises = {name: nx.descendants(rising, name) if name in rising else set() for name in graph}

    def _stages(self, there: set[str]) -> dict[str, int]:
        """1 + the latest of its needs, each as early as any maker allows. A step without one can never fire."""
        stage: dict[str, int] = {}
        available = dict.fromkeys(there, 0)
        for now in range(1, len(self.steps) + 1):
            started = [s for s in self.steps if s.name not in stage and all(_artifact(a) in available for a in s.needs)]
            stage.update((s.name, now) for s in started)
            for artifact in (a for s in started for a in s.all_made):
                available.setdefault(artifact, now)
        return stage

    def faults(self) -> list[str]:
        """Why `sop check` would refuse it."""
        uncapped = self.graph.subgraph(s.name for s in self.steps if s.rounds is None)
        told = [] if nx.is_directed_acyclic_graph(uncapped) else ["a cycle without a bound"]
        told += [f"{s.name} can never fire" for s in self.steps if s.name not in self.stage]
        told += [f"{a.name} and {b.name} are unordered makers" for i, a in enumerate(self.steps) for b in self.steps[i + 1:]
                 if a.all_made & b.all_made and b.name not in self.leads[a.name] and a.name not in self.leads[b.name]]
        return told

    @cached_property
    def bounds(self) -> dict[str, int]:
        """How often each step can fire at most: once outside a loop; inside, `rounds`, or once a version of its triggers."""
        bounds: dict[str, int] = {}

        def bound(s: Step) -> int:
            if s.name not in bounds:
                others = [m for m in self.steps if m is not s and m.all_made & set(s.triggers)]
                alone = len(self.loop[s.name]) == 1
                bounds[s.name] = 1 if alone else s.rounds or 1 + sum(len(m.all_made) * bound(m) for m in others)
            return bounds[s.name]

        return {s.name: bound(s) for s in self.steps}


class Activation(NamedTuple):
    step: str
    round: int
    key: Key
    attempt: int


@dataclass
class Firing:
    """One triggering of a step. What runs in it reads exactly these versions."""

    step: Step
    round: int
    read: dict[str, int]                                         # artifact → version, 0 where it is missing
    reads: dict[str, Any]                                        # entry → value
    items: dict[Key, Any]                                        # in the order of the list; {None: None} without foreach
    after: dict[Key, list[str]]                                  # transitive, in the order of the list
    dropped: list[Key]
    results: dict[Key, Any] = field(default_factory=dict)
    digests: dict[Key, str] = field(default_factory=dict)
    reused: list[Key] = field(default_factory=list)
    failed: dict[Key, str] = field(default_factory=dict)         # key → error
    lost: list[Key] = field(default_factory=list)                # their dependents, which never run
    running: dict[Key, int] = field(default_factory=dict)        # key → attempt
    revised: Any = None                                          # the version that it read of the artifact it makes
    ran: bool = False
    made: dict[str, int] = field(default_factory=dict)           # artifact → version

    def prior(self, key: Key) -> dict[str, Any]:
        return {k: self.results[k] for k in self.after[key]}

    def record(self) -> tuple[Any, ...]:
        """What must not depend on timing."""
        keys = None if self.step.foreach is None else tuple(self.items)
        return (self.step.name, self.round, tuple(sorted(self.read.items())), keys, frozenset(self.reused),
                frozenset(self.dropped), frozenset(self.failed), frozenset(self.lost), tuple(sorted(self.made.items())))


class Memo(NamedTuple):
    """What a `foreach` step keeps of an item until it fires again. Without a digest the item failed, or never ran."""

    digest: str | None
    result: Any
    wrote: frozenset[str]                                        # every path that the item wrote and that may still be there


class Reference:
    def __init__(self, procedure: Procedure, without: Collection[str] = ()) -> None:
        self.procedure, self.without, self.order = procedure, without, procedure.order
        first = {**procedure.given, **procedure.initial}
        self.versions: dict[str, list[tuple[Any, str | None]]] = {a: [(v, None)] for a, v in first.items()}   # value, maker
        self.cursor: dict[str, dict[str, int]] = {s.name: {} for s in procedure.steps}
        self.fired = dict.fromkeys((s.name for s in procedure.steps), 0)
        self.firing: dict[str, Firing] = {}                      # step → its firing that runs
        self.memory: dict[str, dict[Key, Memo]] = {s.name: {} for s in procedure.steps}   # of its last firing
        self.running: dict[Activation, Firing] = {}              # in the order of their start
        self.activations: list[Activation] = []                  # all that ever ran, attempts included
        self.log: list[Firing] = []
        self.stopped_by: Activation | None = None
        self._start()

    # what there is ---------------------------------------------------------------------------------------------------

    def version(self, artifact: str) -> int:
        return len(self.versions.get(artifact, ()))

    def value(self, entry: str) -> Any:
        artifact, *path = entry.split(".")
        value = self.versions[artifact][-1][0] if artifact in self.versions else None
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def reads(self, s: Step) -> dict[str, Any]:
        return {entry: self.value(entry) for entry in s.needs + s.wants + s.sees}

    @property
    def artifacts(self) -> dict[str, tuple[int, Any]]:
        """Artifact → number of versions, latest value."""
        return {a: (len(made), made[-1][0]) for a, made in self.versions.items()}

    @property
    def ended(self) -> str | None:
        """None while it runs, then quiet or stopped. `deadlock` would break the rules' promise."""
        if self.stopped_by:
            return "stopped"
        if self.running:
            return None
        return "deadlock" if any(map(self._ready, self.procedure.steps)) else "quiet"

    @property
    def never(self) -> dict[str, str]:
        """Step that never fired → why: the needs that nobody made, or its `when`, or that the run stopped."""
        told = {}
        for s in (s for s in self.procedure.steps if not self.fired[s.name]):
            missing = [a for a in map(_artifact, s.needs) if not self.version(a)]
            told[s.name] = "stopped" if self.stopped_by else "needs " + ", ".join(missing) if missing else "when"
        return told

    # rules 4 to 8: who fires -----------------------------------------------------------------------------------------

    def _triggered(self, s: Step) -> bool:
        return not self.fired[s.name] or any(
            self.version(a) > self.cursor[s.name].get(a, 0) and self.versions[a][-1][1] != s.name for a in s.triggers)

    def _ready(self, s: Step) -> bool:
        return (s.name not in self.firing and self._triggered(s) and all(self.version(_artifact(a)) for a in s.needs)
                and (s.rounds is None or self.fired[s.name] < s.rounds)
                and (s.when is None or bool(s.when.of(self.reads(s), self.fired[s.name] + 1))))

    def _blocked(self, b: Step, ready: list[Step]) -> bool:
        order = self.order
        if "7a" not in self.without:
            for a in (f.step for f in self.firing.values()):
                if b.name in order.leads[a.name] or a.all_made & b.all_made:
                    return True
        for a in ready:
            same = order.loop[a.name] == order.loop[b.name]
            if "7b" not in self.without and not same and b.name in order.leads[a.name]:
                return True
            if "7c" not in self.without and same and b.name in order.rises[a.name]:
                return True
        return False

    def _priority(self, s: Step) -> float:
        if "priority" in self.without:
            return 0
        return s.priority.of(self.reads(s), self.fired[s.name] + 1) if isinstance(s.priority, Expr) else s.priority

    def _start(self) -> None:
        while not self.stopped_by:
            ready = [s for s in self.procedure.steps if self._ready(s)]
            free = [s for s in ready if not self._blocked(s, ready)]
            if not free:
                return
            self._fire(max(free, key=self._priority))            # the first of the highest

    def _fire(self, s: Step) -> None:
        reads = self.reads(s)
        self.fired[s.name] += 1
        read = {a: self.version(a) for a in s.reads}
        self.cursor[s.name].update((a, read[a]) for a in s.triggers)
        items, after = self._items(s, reads, self.fired[s.name])
        author = s.makes not in s.reads                          # who reads what it makes revises, and drops nothing
        dropped = [k for k in self.memory[s.name] if k not in items] if author and "drop" not in self.without else []
        firing = Firing(s, self.fired[s.name], read, reads, items, after, dropped)
        firing.revised = self.value(s.makes)
        self.firing[s.name] = firing
        self.log.append(firing)
        self._advance(firing)

    def _items(self, s: Step, reads: dict[str, Any], round_: int) -> tuple[dict[Key, Any], dict[Key, list[str]]]:
        each = s.foreach
        if each is None:
            return {None: None}, {None: []}
        taken = [i for i in each.in_.of(reads, round_) or [] if each.where is None or each.where.of(i, reads)]
        items = {(each.key.of(i, reads) if each.key else i): i for i in taken}
        if len(items) < len(taken):
            raise ValueError(f"{s.name}: keys must be unique")
        graph: nx.DiGraph[Any] = nx.DiGraph()
        graph.add_nodes_from(items)
        if each.after and "after" not in self.without:           # an item that `where` left out is not waited for
            graph.add_edges_from((k, key) for key, i in items.items() for k in each.after.of(i, reads) if k in items)
        waits = {key: nx.ancestors(graph, key) for key in items}
        return items, {key: [k for k in items if k in waits[key]] for key in items}

    # items of a firing -----------------------------------------------------------------------------------------------

    def _advance(self, f: Firing) -> None:
        """Starts what may start: reuse is settled first, then items go in the order of the list, `parallel` at most."""
        while True:
            free = [key for key in f.items if not (key in f.results or key in f.failed or key in f.lost or key in f.running)
                    and all(k in f.results or k in f.failed or k in f.lost for k in f.after[key])]
            lost = [key for key in free if any(k in f.failed or k in f.lost for k in f.after[key])]
            f.lost += lost
            if not lost and not [key for key in free if self._reused(f, key)]:
                break
        for key in free:
            each = f.step.foreach
            if not (each and each.parallel and len(f.running) >= each.parallel):
                self._run(f, key, 0)
        if not f.running:
            self._commit(f)

    def _reused(self, f: Firing, key: Key) -> bool:
        """An item runs again only if its value, the other needs and wants, or what its `after` made differ from last time."""
        if f.step.foreach is None:
            return False
        counted = {e: f.reads[e] for e in f.step.needs + f.step.wants if e not in f.step.foreach.names}
        if f.step.makes in f.step.reads:                         # a reviser: what it betters counts
            counted["revised"] = f.revised
        f.digests[key] = json.dumps([f.items[key], counted, f.prior(key)], sort_keys=True)
        last = self.memory[f.step.name].get(key)
        if "reuse" in self.without or last is None or last.digest != f.digests[key]:
            return False
        f.results[key] = last.result
        f.reused.append(key)
        return True

    def _run(self, f: Firing, key: Key, attempt: int) -> None:
        activation = Activation(f.step.name, f.round, key, attempt)
        f.running[key], f.ran = attempt, True
        self.running[activation] = f
        self.activations.append(activation)

    def finish(self, activation: Activation) -> None:
        """Ends one of `running`: it works, or fails and is tried again, or fails for good."""
        f = self.running.pop(activation)
        name, round_, key, attempt = activation
        del f.running[key]
        try:
            f.results[key] = self.procedure.work(name, round_, f.reads, f.items[key], key, f.prior(key), attempt)
        except Fails as failure:
            if attempt < f.step.retries:
                self._run(f, key, attempt + 1)                   # at once: an item keeps its place among `parallel`
                return
            if f.step.on_fail == "stop":
                self.stopped_by = activation
                self.running.clear()
                return
            f.failed[key] = str(failure)
        self._advance(f)
        self._start()

    # commits ---------------------------------------------------------------------------------------------------------

    def _commit(self, f: Firing) -> None:
        """All that a firing made exists at once."""
        s = f.step
        del self.firing[s.name]
        made: dict[str, Any] = {}
        if s.foreach:
            if f.ran or f.dropped or not self.version(s.makes):
                made[s.makes] = self._merged(f)
            self._remember(f)
        elif f.results:
            whole = f.results[None]
            made[s.makes] = self._overlaid([], [whole], s) if self.procedure.kind(s.makes) == "files" else whole
        if s.caught and f.failed:
            failures = [{"key": k, "error": f.failed[k]} for k in f.items if k in f.failed and k is not None]
            (key, error), = [(k, f.failed[k]) for k in f.items if k in f.failed][:1]
            made[s.caught] = {"step": s.name, "key": key or "", "error": error, "items": failures}
        for artifact, value in made.items():
            self.versions.setdefault(artifact, []).append((value, s.name))
            f.made[artifact] = self.version(artifact)

    def _merged(self, f: Firing) -> Any:
        """The latest version with what ran laid over it. Reused items are in it already, and stay as they are there.

        Of an author, what was dropped or is absent now goes first, and its items stand in the order of its list.
        """
        s, last = f.step, self.memory[f.step.name]
        author = s.makes not in s.reads
        absent = [k for k in f.items if k not in f.results]
        gone = f.dropped + (absent if author else [])
        fresh = {k: f.results[k] for k in f.items if k in f.results and k not in f.reused}
        latest = self.value(s.makes) or {"of": [], "missing": []}
        spoken_of = {*f.items, *f.dropped}
        missing = absent + [k for k in latest["missing"] if k not in spoken_of]
        if self.procedure.kind(s.makes) == "files":
            deleted = [p for k in gone if k in last for p in last[k].wrote]
            return self._overlaid(deleted, list(fresh.values()), s, missing)
        entries = {k: v for k, v in latest["of"] if k not in gone} | fresh
        first = [k for k in f.items if k in entries] if author else []
        return {"of": [[k, entries[k]] for k in [*first, *(k for k in entries if k not in first)]], "missing": missing}

    def _overlaid(self, deleted: list[str], written: list[dict[str, Any]], s: Step, missing: list[str] | None = None) -> Any:
        latest = self.value(s.makes) or {"of": {}, "missing": []}
        files = {p: text for p, text in latest["of"].items() if p not in deleted}
        for patch in written:
            files = {p: text for p, text in {**files, **patch}.items() if text is not None}
        return {"of": dict(sorted(files.items())), "missing": latest["missing"] if missing is None else missing}

    def _remember(self, f: Firing) -> None:
        last, files = self.memory[f.step.name], self.procedure.kind(f.step.makes) == "files"
        memory: dict[Key, Memo] = {}
        for key in f.items:
            if key not in f.results:
                memory[key] = Memo(None, None, frozenset())
                continue
            now = {p for p, text in f.results[key].items() if text is not None} if files else set()
            memory[key] = Memo(f.digests[key], f.results[key], frozenset(now) | (last[key].wrote if key in last else frozenset()))
        self.memory[f.step.name] = memory


def play(procedure: Procedure, seed: int, without: Collection[str] = ()) -> Reference:
    """Plays one timing to the end: first come first served, last come, any, or some steps always slower than others."""
    machine, r = Reference(procedure, without), random.Random(seed)
    slowness = {s.name: r.random() for s in procedure.steps}
    clocks: list[Callable[[list[Activation]], Activation]] = [
        lambda running: running[0], lambda running: running[-1], r.choice,
        lambda running: min(running, key=lambda a: slowness[a.step])]
    while machine.running:
        machine.finish(clocks[seed % 4](list(machine.running)))
    return machine


ROW = {"id": "string", "after": ["string"], "v": "integer"}
DATA = {"n": "integer", "rows": [ROW], "texts": ["string"]}       # every data artifact and input has this schema
MADE: dict[str, dict[str, Any]] = {"data": {"schema": DATA}, "collection": {"each": {"n": "integer"}}, "failure": {}}


def to_sop(procedure: Procedure) -> dict[str, Any]:
    """The same procedure as a SOP file would say it; one role does all the work. Keys that say nothing are left out."""
    def artifact(name: str) -> dict[str, Any]:
        declared = {"files": f"{name}/**"} if procedure.kind(name) == "files" else dict(MADE[procedure.kind(name)])
        return declared | ({"initial": procedure.initial[name]} if name in procedure.initial else {})

    made = sorted({a for s in procedure.steps for a in s.all_made} | set(procedure.initial))
    return {"sop": "random", "roles": {"worker": {"profile": "does what the test says"}},
            "inputs": {name: {"type": DATA} for name in procedure.given},
            "artifacts": {name: artifact(name) for name in made},
            "steps": {s.name: _step(s) for s in procedure.steps}}


def _step(s: Step) -> dict[str, Any]:
    each = s.foreach
    foreach = each and {"in": each.in_.text, "as": each.as_ if each.as_ != "item" else None, "parallel": each.parallel,
                        **{key: getattr(each, key).text for key in ("key", "after", "where") if getattr(each, key)}}
    said = {"role": "worker", "needs": list(s.needs), "wants": list(s.wants), "sees": list(s.sees),
            "makes": {s.makes: s.pattern} if s.pattern else s.makes, "when": s.when and s.when.text,
            "foreach": foreach and {key: told for key, told in foreach.items() if told is not None}, "rounds": s.rounds,
            "priority": s.priority.text if isinstance(s.priority, Expr) else s.priority, "retries": s.retries,
            "on_fail": None if s.on_fail == "stop" else s.on_fail}
    return {key: told for key, told in said.items() if told not in (None, [], 0)}
