"""What only the graph of steps tells: what can never fire, cycles without a bound, makers without an order."""

from __future__ import annotations

from itertools import pairwise

from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.sop.checks.budgets import check_budgets
from metaflow_agents.sop.checks.context import Context
from metaflow_agents.sop.checks.reach import check_reach
from metaflow_agents.sop.graph import SOPGraph, artifact_of, needed


def check_flow(c: Context) -> SOPGraph:
    """Tells the faults of the graph; gives the graph of the SOP, misspelt names set right."""
    graph = SOPGraph(_mended(c))
    graph.given |= {name for name in c.known if name not in c.made} | c.unknown_reads
    stuck = _never(c, graph)
    unbounded = graph.unbounded_cycles()
    for cycle in unbounded:
        if not stuck.issuperset(cycle):
            _unbounded(c, cycle, graph)
    if not c.unknown_reads:
        _unordered(c, graph)
    for name, step in c.sop.steps.items():
        if step.rounds is not None and c.own("steps", name, "rounds") and not graph.in_loop(name) and not c.unknown_reads:
            c.say("rounds-alone", ("steps", name, "rounds"),
                  f"`{name}` is in no loop and fires at most once: `rounds` has no effect",
                  "remove it, or read what makes the loop", key=True)
    if not (stuck or c.unknown_reads or c.muted or c.mended or unbounded):
        check_reach(c, graph)
        check_budgets(c, graph)
    return graph


def _mended(c: Context) -> SOP:
    """The SOP with reads of unknown names left out and misspelt `makes` set right, so that one slip is told once."""
    steps: dict[str, Step] = {}
    for name, step in c.sop.steps.items():
        update: dict[str, object] = {
            kind: tuple(entry for entry in getattr(step, kind) if artifact_of(entry) in c.known) for kind in ("needs", "wants",
                                                                                                              "sees")}
        made = c.mended.get(step.makes.artifact, step.makes.artifact)
        if made in c.sop.inputs:
            made = f"{made} by {name}"                    # told already, and no loop follows from it
        update["makes"] = step.makes.model_copy(update={"artifact": made})
        steps[name] = step.model_copy(update=update)
    return c.sop.model_copy(update={"steps": steps})


def _never(c: Context, graph: SOPGraph) -> set[str]:
    """Steps that wait for each other before their first firing; those that only wait for such are not repeated."""
    never = set(graph.never())
    told: set[str] = set()
    for name in graph.never():
        circle = _circle(graph, never, name)
        if not circle or told & set(circle):
            continue
        told |= set(circle)
        first = circle[0]
        waits = circle[1] if len(circle) > 1 else first
        artifact = next(a for a in needed(graph.steps[first]) if waits in graph.makers.get(a, ()))
        index = next(i for i, entry in enumerate(c.sop.steps[first].needs) if artifact_of(entry) == artifact)
        others = [*circle[1:], first]
        way = "".join(f", and `{one}` waits for `{next_}`" for one, next_ in pairwise(others))
        maker = "it" if waits == first else f"`{waits}`"
        c.say("never-fires", c.entry("steps", first, "needs", index),
              f"`{first}` can never fire: it needs `{artifact}`, which only {maker} makes{way}",
              f"move `{artifact}` to `wants`, or give it `initial:`")
    return never


def _circle(graph: SOPGraph, never: set[str], start: str) -> list[str]:
    """From a step to one whose product it needs and that never fires, until a step comes again: that circle."""
    path: list[str] = []
    name = start
    while name not in path:
        path.append(name)
        needs = [a for a in needed(graph.steps[name]) if a not in graph.given]
        makers = [m for a in needs for m in graph.makers.get(a, ()) if all(other in never for other in graph.makers[a])]
        if not makers:
            return []
        name = makers[0]
    return path[path.index(name):]


def _unbounded(c: Context, cycle: list[str], graph: SOPGraph) -> None:
    way = " → ".join(f"`{name}`" for name in [*cycle, cycle[0]])
    c.say("cycle", ("steps", cycle[0]), f"the cycle {way} has no bound: it may loop forever",
          f"give one of its steps `rounds: N`, such as `{cycle[-1]}`", key=True)


def _unordered(c: Context, graph: SOPGraph) -> None:
    for artifact, first, second in graph.unordered_makers():
        if artifact in c.muted:
            continue
        by_failure = c.sop.steps[second].makes.artifact != artifact
        where = ("steps", second, "on_fail") if by_failure else ("steps", second, "makes")
        c.say("unordered-makers", where, f"`{first}` and `{second}` both make `{artifact}`, and neither comes after the other",
              f"let one read what the other makes (such as `sees: [{artifact}]` in `{second}`), or "
              "let each make an artifact of its own")

