"""Artifacts that are dependency graphs (`graph:`), and what a `foreach` over one takes from there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from metaflow_agents.schema.artifact import Artifact
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Foreach


def walk_of(name: str, artifact: Artifact, as_: str = "item") -> Foreach | None:
    """The walk over an artifact's graph, its nodes called `as_`; None where it is no graph."""
    graph = artifact.graph
    if graph is None:
        return None
    nodes = name if graph.nodes is None else f"{name}.{graph.nodes}"
    return Foreach.model_validate({"in": nodes, "as": as_, "key": f"{as_}.{graph.key}", "after": f"{as_}.{graph.edges}"})


def node_faults(artifact: Artifact, value: Any) -> list[str]:
    """What is wrong with a written value's graph, as far as its keys and edges are where they should be."""
    graph = artifact.graph
    nodes = value
    for part in () if graph is None or graph.nodes is None else graph.nodes.split("."):
        nodes = nodes.get(part) if isinstance(nodes, Mapping) else None
    if graph is None or not isinstance(nodes, list):
        return []
    after = {node[graph.key]: node.get(graph.edges) or [] for node in nodes if isinstance(node, Mapping) and graph.key in node}
    faults = [] if len(after) == len(nodes) else ["two of its nodes have the same key, or one has none"]
    for key, first in after.items():
        faults += [f"{key!r} comes after {other!r}, which is no key" for other in first if other not in after]
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        faults.append(f"its nodes wait for each other in a circle: {', '.join(map(repr, error.args[1][1:]))}")
    return faults


def with_graphs(sop: SOP) -> SOP:
    """The SOP, each `foreach` over the nodes of a graph completed by the `key` and the `after` that it does not write."""
    steps = dict(sop.steps)
    for name, step in sop.steps.items():
        foreach = step.foreach
        spec = None if foreach is None else sop.artifacts.get(foreach.in_.partition(".")[0].strip())
        if foreach is None or spec is None:
            continue
        walk = walk_of(foreach.in_.partition(".")[0].strip(), spec, foreach.as_)
        if walk is None or walk.in_ != foreach.in_.strip():
            continue
        lacking = {key: getattr(walk, key) for key in ("key", "after") if getattr(foreach, key) is None}
        if lacking:
            steps[name] = step.model_copy(update={"foreach": foreach.model_copy(update=lacking)})
    return sop.model_copy(update={"steps": steps}) if steps != sop.steps else sop
