"""`graph`: the list of nodes, the key of a node and its edges are there, and of types that can be these."""

from __future__ import annotations

from metaflow_agents.errors import did_you_mean
from metaflow_agents.schema.artifact import Artifact, Graph
from metaflow_agents.schema.shape import Shape
from metaflow_agents.sop.checks.context import Context, Place


def check_graphs(c: Context) -> None:
    """The graph of each artifact that is one."""
    for name, artifact in c.sop.artifacts.items():
        if artifact.graph is not None and name not in c.sop.inputs:
            _graph(c, name, artifact, artifact.graph)


def _graph(c: Context, name: str, artifact: Artifact, graph: Graph) -> None:
    where: Place = ("artifacts", name, "graph")
    if artifact.files or "each" in artifact.model_fields_set or artifact.schema_ is None:
        c.say("bad-graph", where, f"`{name}` is {_kind(artifact)}: a graph is a list of nodes in data",
              "give it a `schema` that holds such a list", key=True)
        return
    shape, walked = c.shape(name), name
    for part in graph.nodes.split(".") if graph.nodes else ():
        found = _field(c, (*where, "nodes"), shape, walked, part)
        if found is None:
            return
        shape, walked = found, f"{walked}.{part}"
    if not shape.kinds & {"any", "list"}:
        lists = [field for field in shape.fields() if (one := shape.field(field)) is not None and one.kind == "list"]
        c.say("bad-graph", (*where, "nodes") if graph.nodes else where, f"`{walked}` is {shape.describe()}; it must be a list",
              f"its lists are: {', '.join(f'`{field}`' for field in lists)}" if lists else "name a list as `nodes`")
        return
    node = shape.item()
    _typed(c, (*where, "key"), node, walked, graph.key, "a text, which names the node", ("string",))
    _typed(c, (*where, "edges"), node, walked, graph.edges, "a list of keys", ("list", "string"))


def _typed(c: Context, where: Place, node: Shape, walked: str, field: str, wanted: str, kinds: tuple[str, ...]) -> None:
    found = _field(c, where, node, f"a node of `{walked}`", field)
    if found is None or "any" in found.kinds:
        return
    lists = found.item().kinds & {"any", "string"} if "list" in found.kinds else True
    if not found.kinds & {*kinds, "any"} or not lists:
        c.say("bad-graph", where, f"`{field}` is {found.describe()}; it must be {wanted}",
              "name another field, or mend the schema")


def _field(c: Context, where: Place, shape: Shape, walked: str, field: str) -> Shape | None:
    """A field's shape; None where there is none, or nothing is known."""
    if shape.kind in ("any", "union"):
        return None
    found = shape.field(field) if shape.kind == "object" else None
    if found is None:
        fields = list(shape.fields()) if shape.kind == "object" else []
        shown = walked if " " in walked else f"`{walked}`"
        c.say("bad-graph", where, f"{shown} has no field `{field}`",
              did_you_mean(field, fields) if fields else f"it is {shape.describe()}")
    return found


def _kind(artifact: Artifact) -> str:
    if artifact.files:
        return "a set of files"
    return "a collection" if "each" in artifact.model_fields_set else "text"
