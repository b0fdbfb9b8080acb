"""The graph of a SOP as boxes and paths: what the page draws. Where they stand is worked out by `views/layout.py`."""

from __future__ import annotations

from typing import Any

from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.layout import laid_out


def graph_json(sop: SOP, graph: SOPGraph) -> dict[str, Any]:
    """Graph = {width, height, nodes: [{id, kind, name, lines, x, y, w, h}], edges: [{from, to, kind, back, aside, d}]}, in
    pixels; `x` and `y` are those of a box's upper left corner, `d` a path as SVG has it. `aside`: other edges lead there, too.
    """
    layout = laid_out(sop, graph)
    nodes = [{"id": box.id, "kind": box.kind, "name": box.id.partition(":")[2], "lines": list(box.lines),
              "x": round(box.x - box.width / 2, 1), "y": round(box.y, 1), "w": round(box.width, 1), "h": round(box.height, 1)}
             for box in layout.boxes if box.lines]
    edges = []
    for edge in layout.edges:
        upper, lower = edge.chain[0].id, edge.chain[-1].id
        start, end = (lower, upper) if edge.back else (upper, lower)
        edges.append({"from": start, "to": end, "kind": edge.kind, "back": edge.back, "aside": edge.aside,
                      "d": layout.way(edge)})
    return {"width": round(layout.width, 1), "height": round(layout.height, 1), "nodes": nodes, "edges": edges}
