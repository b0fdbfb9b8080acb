"""What never comes about in any run: a `when` that can't hold before a step's first firing, a loop that can't go round, an
artifact that a step reads before anybody can have made it.

Each finding follows from the firing rules for every run, whatever models answer; what depends on answers is not told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Set

from metaflow_agents.prompts import MISSING, never_holds
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.context import Context
from metaflow_agents.sop.graph import SOPGraph, artifact_of, makes, needed, reads, triggers


def check_reach(c: Context, graph: SOPGraph) -> None:
    """Only of a graph in which all names are known, every step has a stage, and every cycle a bound."""
    can = can_fire(c, graph)
    _conditions(c, graph, can)
    if c.sop.progress is not None and c.sop.progress.makes is not None:
        return                                            # what it makes at intervals may trigger any step once more
    bounds = graph.firing_bounds()
    told = _loops(c, graph, bounds)
    for name in graph.steps:
        if name in can and bounds[name] == 1:
            _too_late(c, graph, name, told)


def can_fire(c: Context, graph: SOPGraph, without: str | None = None) -> frozenset[str]:
    """Steps that some run may fire, step `without` left out.

    The first of the others that a run fired would find only what these make: its needs, or its `when`, would not hold.
    """
    there, found = set(graph.given), set[str]()
    while fresh := [name for name in graph.steps if name not in found and name != without and _may_start(c, graph, name, there)]:
        found.update(fresh)
        there.update(artifact for name in fresh for artifact in makes(graph.steps[name]))
    return frozenset(found)


def _may_start(c: Context, graph: SOPGraph, name: str, there: set[str]) -> bool:
    """Whether a first firing is possible while only these artifacts exist. A constant `when` is told by a check of its own."""
    step = graph.steps[name]
    if not there.issuperset(needed(step)):
        return False
    if step.when is None or name in c.constant:
        return True
    absent = dict.fromkeys((artifact for artifact in reads(step) if artifact not in there), MISSING)
    return not never_holds(step.when, {"round": 1, **absent})


def _conditions(c: Context, graph: SOPGraph, can: frozenset[str]) -> None:
    """Steps that only their `when` holds back; those that wait for what such a step makes are not repeated."""
    there = graph.given | {artifact for name in can for artifact in makes(graph.steps[name])}
    for name, step in graph.steps.items():
        if name in can or not there.issuperset(needed(step)):
            continue
        if (absent := _to_blame(step, there)):
            why = f"before its first firing nobody can have made {_listed(absent)}"
            mend = f"let `when` hold while {_listed(absent)} is missing (such as `not {absent[0]} or …`), or give it `initial:`"
        else:
            why = "`round` is 1 in its first firing"
            mend = "let `when` hold in round 1, or remove the step"
        c.say("when-never", ("steps", name, "when"), f"`{name}` can never fire: its `when` can't hold, because {why}", mend)


def _to_blame(step: Step, there: Set[str]) -> list[str]:
    """The artifacts whose absence makes `when` false; empty where its `round` alone does."""
    if step.when is None or never_holds(step.when, {"round": 1}):
        return []
    known = {"round": 1, **{artifact: MISSING for artifact in reads(step) if artifact not in there}}
    absent = [artifact for artifact in known if artifact != "round"]
    return [one for one in absent if not never_holds(step.when, {name: known[name] for name in known if name != one})] or absent


def _loops(c: Context, graph: SOPGraph, bounds: dict[str, int]) -> set[tuple[str, str]]:
    """Loops whose step has `rounds` above 1 and can fire once only, since what would trigger it is only seen."""
    told: set[tuple[str, str]] = set()
    for name, step in c.sop.steps.items():
        if (step.rounds or 0) < 2 or bounds[name] != 1 or not graph.in_loop(name) or not c.own("steps", name, "rounds"):
            continue
        cycle = _cycle(graph, name)
        for maker, reader in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            for artifact in _only_seen(graph, maker, reader):
                if (reader, artifact) in told:
                    continue
                told.add((reader, artifact))
                way = " → ".join(f"`{one}`" for one in [*cycle, cycle[0]])
                c.say("loop-stands-still", _read_at(c, reader, artifact),
                      f"the loop {way} can't repeat: `{reader}` only sees `{artifact}`, which never triggers it, so that "
                      f"`{name}` fires once, whatever its `rounds: {step.rounds}`",
                      f"move `{artifact}` to `wants` of `{reader}`; if it shall fire once, write `rounds: 1` in `{name}`")
    return told


def _only_seen(graph: SOPGraph, maker: str, reader: str) -> tuple[str, ...]:
    """What the reader reads of the maker, where none of it triggers; empty where some does."""
    made = makes(graph.steps[maker])
    step = graph.steps[reader]
    return () if set(triggers(step)) & set(made) else tuple(artifact for artifact in reads(step) if artifact in made)


def _cycle(graph: SOPGraph, name: str) -> list[str]:
    """A cycle through a step of a loop, with the fewest edges that never trigger; of these a short one."""
    inside = {other for other in graph.steps if graph.loop[other] == graph.loop[name]}
    ways: dict[str, list[str]] = {}
    ends: deque[list[str]] = deque([[name]])
    while ends:
        way = ends.popleft()
        if way[0] in ways:
            continue
        if len(way) > 1:
            ways[way[0]] = way
            if way[0] == name:
                break
        for maker in sorted(graph.arrows[way[0]] & inside, key=graph.place.__getitem__):
            if _only_seen(graph, maker, way[0]):
                ends.append([maker, *way])
            else:
                ends.appendleft([maker, *way])
    return ways[name][:-1]


def _too_late(c: Context, graph: SOPGraph, name: str, told: set[tuple[str, str]]) -> None:
    """What a step that fires once reads, and what nobody makes before that."""
    late = [artifact for artifact in _optional(c, name) if artifact not in graph.given and (name, artifact) not in told
            and graph.makers.get(artifact) and all(graph.loop[maker] == graph.loop[name] for maker in graph.makers[artifact])]
    if not late:
        return
    before = can_fire(c, graph, without=name)
    for artifact in late:
        makers = graph.makers[artifact]
        if before.isdisjoint(makers):
            alone = makers == (name,)
            who = "it makes that itself" if alone else f"{_listed(list(makers))} can make that only after `{name}`"
            again = "" if alone else f"; if `{name}` shall fire again for it, put it into `wants`, with `rounds` above 1"
            c.say("seen-too-late", _read_at(c, name, artifact),
                  f"`{artifact}` is always missing here: `{name}` fires once, and {who}",
                  f"leave it out, or give `{artifact}` `initial:`{again}")


def _optional(c: Context, name: str) -> Iterator[str]:
    step = c.sop.steps[name]
    yield from dict.fromkeys(artifact_of(entry) for entry in (*step.wants, *step.sees))


def _read_at(c: Context, name: str, artifact: str) -> tuple[str | int, ...]:
    """Where a step says that it reads an artifact without needing it."""
    kind, index = next((kind, index) for kind in ("sees", "wants") for index, entry in enumerate(getattr(c.sop.steps[name], kind))
                       if artifact_of(entry) == artifact)
    return c.entry("steps", name, kind, index)


def _listed(names: list[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)
