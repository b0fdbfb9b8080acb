"""Where the steps of a SOP stand in a picture, and the ways of the edges between them.

Each step is a layer below what it reads. The order within a layer keeps crossings few (barycenters); positions are the least
squares of the distances between neighbours. An edge that crosses several layers gets one place in each of them. An edge
from whose start other edges lead to its end says nothing new about what comes first: it stands aside, and takes no room.
Sources: Aho, Garey, Ullman, "The Transitive Reduction of a Directed Graph", SIAM J. Comput. 1 (1972);
Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE SMC 11 (1981).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise

from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph, makes, outputs_of, reads
from metaflow_agents.views.graph import edges_of, worker_of
from metaflow_agents.views.page import columns, cut, safe

LETTER, LINE, EDGE = 7.3, 17, 16            # pixels: a letter's width, a line's height, the space around the picture
_PAD, _GAP, _BETWEEN = 14, 26, 46           # pixels: in a box, between boxes of a layer, between layers
_MOST = 34                                  # letters of a line in a box
_SWEEPS = 8
KINDS = ("needs", "wants", "sees")
"""How a step reads an artifact, the strongest first."""


@dataclass(slots=True, eq=False)
class Box:
    """A step, an input or an output; without lines a place that an edge is led through."""

    layer: int
    lines: Sequence[str] = ()
    kind: str = ""                      # the type of a step; `end`: an input or an output
    id: str = ""                        # `step:write`, `input:idea`, `output:report`
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)
    x: float = 0.0                      # of its centre, in pixels
    y: float = 0.0                      # of its top

    @property
    def width(self) -> float:
        """In pixels."""
        return max(map(columns, self.lines)) * LETTER + 2 * _PAD if self.lines else 10

    @property
    def height(self) -> float:
        """In pixels."""
        return len(self.lines) * LINE + 14 if self.lines else 0


@dataclass(slots=True)
class Edge:
    """`chain`: its boxes from the upper to the lower one. `back`: it leads from the lower to the upper. `aside`: a chain of
    other edges leads from its start to its end, too; or it leads back and starts nothing.
    """

    chain: list[Box]
    kind: str
    back: bool
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """`boxes` have their places, those without lines too; `width` and `height` in pixels, the space around included."""

    boxes: Sequence[Box]
    edges: Sequence[Edge]
    ends: dict[tuple[int, bool], tuple[float, float]]
    width: float
    height: float

    def way(self, edge: Edge) -> str:
        """The path of an edge, as SVG has it, from where it comes to where it leads."""
        points = [self.ends[id(edge), True], *((box.x, box.y + 25) for box in edge.chain[1:-1]), self.ends[id(edge), False]]
        if edge.back:
            points.reverse()
        (x, y), *rest = points
        way = f"M{x:.1f} {y:.1f}"
        for to_x, to_y in rest:
            half = (to_y - y) / 2
            way += f"C{x:.1f} {y + half:.1f} {to_x:.1f} {to_y - half:.1f} {to_x:.1f} {to_y:.1f}"
            x, y = to_x, to_y
        return way


def laid_out(sop: SOP, graph: SOPGraph) -> Layout:
    """Boxes for steps, inputs and outputs, an edge from each maker to each reader."""
    boxes, edges = _boxes(sop, graph)
    layers: list[list[Box]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))]
    for box in boxes:
        layers[box.layer].append(box)
    layers = [layer for layer in layers if layer]
    _order(layers)
    _place(layers)
    width = max((box.x + box.width / 2 for box in boxes), default=0) + EDGE
    bottom = max((box.y + box.height for box in boxes), default=0)
    return Layout(boxes, edges, _ends(edges), width, bottom + EDGE)


def _boxes(sop: SOP, graph: SOPGraph) -> tuple[list[Box], list[Edge]]:
    kinds: dict[tuple[str, str], str] = {}
    for maker, reader, _, kind in edges_of(graph):
        first = kinds.get((maker, reader))
        kinds[maker, reader] = min(kind, first or kind, key=KINDS.index)
    taken = [f"input:{name}" for name in sop.inputs if any(name in reads(step) for step in graph.steps.values())]
    names = [*taken, *graph.steps]
    kinds = {pair: kind for pair, kind in kinds.items() if pair[0] in names}                # `initial` values have no box
    upward = {pair: _goes_back(pair, graph) for pair in kinds}
    upper: dict[str, list[str]] = {name: [] for name in names}
    for (maker, reader), back in upward.items():
        upper[maker if back else reader].append(reader if back else maker)
    layer: dict[str, int] = {}
    for name in TopologicalSorter(upper).static_order():
        layer[name] = max((layer[one] + 1 for one in upper[name]), default=0)
    for name in taken:                                                                      # next to the first that reads it
        layer[name] = min(layer[reader] for maker, reader in kinds if maker == name) - 1
    ends = [(maker, f"output:{name}") for name in outputs_of(sop) for maker in graph.makers.get(name, ())]
    aside = _implied([*ends, *(pair for pair, back in upward.items() if not back)])
    aside |= {pair for pair, back in upward.items() if back and kinds[pair] == "sees"}      # it starts nothing
    found = {name: Box(layer[name], [cut(safe(name.removeprefix("input:")), _MOST)], "end", name) for name in taken}
    for name, step in graph.steps.items():
        each = " ×n" if step.foreach else ""
        loop = f" ↻{step.rounds}" if step.rounds else ""
        who = f"call {step.call.rpartition(':')[2]}" if step.call else worker_of(step)       # the module would fill the box
        lines = [name + loop, who + each, f"→ {' or '.join(makes(step))}"]
        found[name] = Box(layer[name], [cut(safe(line), _MOST) for line in lines], step.doer, f"step:{name}")
    edges = []
    for (maker, reader), kind in kinds.items():
        back = upward[maker, reader]
        chain = [found[reader], found[maker]] if back else [found[maker], found[reader]]
        edges.append(Edge(chain, kind, back, aside=(maker, reader) in aside))
    for name in outputs_of(sop):
        makers = graph.makers.get(name, ())
        layer_below = 1 + max((found[maker].layer for maker in makers), default=0)
        end = found[f"output:{name}"] = Box(layer_below, [cut(safe(name), _MOST)], "end", f"output:{name}")
        edges += [Edge([found[maker], end], "needs", False, aside=(maker, end.id) in aside) for maker in makers]
    boxes = list(found.values())
    for edge in edges:
        if edge.aside:
            continue
        top, bottom = edge.chain
        way = [Box(number) for number in range(top.layer + 1, bottom.layer)]
        edge.chain[1:1] = way
        boxes += way
        for upper_box, lower_box in pairwise(edge.chain):
            upper_box.below.append(lower_box)
            lower_box.above.append(upper_box)
    return boxes, edges


def _implied(edges: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges of an acyclic graph that a chain of its others leads along, too."""
    after: dict[str, list[str]] = {}
    for start, end in edges:
        after.setdefault(start, []).append(end)
        after.setdefault(end, [])
    reached: dict[str, set[str]] = {}
    for name in TopologicalSorter(after).static_order():                                    # an end comes before its starts
        reached[name] = set(after[name]).union(*(reached[end] for end in after[name]))
    return {(start, end) for start, end in edges if any(end in reached[other] for other in after[start])}


def _goes_back(edge: tuple[str, str], graph: SOPGraph) -> bool:
    """Whether an edge closes a loop: it leads to a step of its own loop with a lower rank. Without these there is no cycle."""
    maker, reader = edge
    return maker in graph.steps and graph.loop[maker] == graph.loop[reader] and graph.rank(reader) < graph.rank(maker)


def _order(layers: list[list[Box]]) -> None:
    """Sorts each layer by the mean place of what its boxes are joined to, down and up again."""
    place = {box: number for layer in layers for number, box in enumerate(layer)}

    def sort(layer: list[Box], joined: str) -> None:
        means = {}
        for box in layer:
            others = getattr(box, joined)
            means[box] = sum(place[other] for other in others) / len(others) if others else place[box]
        layer.sort(key=means.__getitem__)
        place.update((box, number) for number, box in enumerate(layer))

    for _ in range(_SWEEPS):
        for layer in layers[1:]:
            sort(layer, "above")
        for layer in reversed(layers[:-1]):
            sort(layer, "below")


def _place(layers: list[list[Box]]) -> None:
    top = float(EDGE)
    for layer in layers:
        for box in layer:
            box.y = top
        _align(layer, [0.0] * len(layer))
        top += max(box.height for box in layer) + _BETWEEN
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _align(layer, [_mean([other.x for other in (*box.above, *box.below)], box.x) for box in layer])
    left = min(box.x - box.width / 2 for layer in layers for box in layer)
    for layer in layers:
        for box in layer:
            box.x += EDGE - left


def _align(layer: list[Box], wished: Sequence[float]) -> None:
    """Puts boxes, in their order and apart from each other, as near to the wished centres as can be (pool adjacent violators)."""
    offsets = [0.0]
    for one, other in pairwise(layer):
        offsets.append(offsets[-1] + (one.width + other.width) / 2 + _GAP)
    pools: list[tuple[float, int]] = []                          # (mean, how many)
    for wish, offset in zip(wished, offsets, strict=True):
        mean, many = wish - offset, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean, many = (before * number + mean * many) / (number + many), number + many
        pools.append((mean, many))
    starts = [mean for mean, many in pools for _ in range(many)]
    for box, start, offset in zip(layer, starts, offsets, strict=True):
        box.x = start + offset


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _ends(edges: Iterable[Edge]) -> dict[tuple[int, bool], tuple[float, float]]:
    """(edge, whether its upper end) → where it touches its box: side by side, in the order of what they lead to."""
    touching: dict[tuple[Box, bool], list[Edge]] = {}
    found = {}
    for edge in edges:
        top, bottom = edge.chain[0], edge.chain[-1]
        if edge.aside:
            found[id(edge), True], found[id(edge), False] = (top.x, top.y + top.height), (bottom.x, bottom.y)
            continue
        touching.setdefault((top, True), []).append(edge)
        touching.setdefault((bottom, False), []).append(edge)
    for (box, upper), there in touching.items():
        there.sort(key=lambda edge: (edge.chain[1] if upper else edge.chain[-2]).x)
        apart = min(22.0, (box.width - 16) / len(there))
        for number, edge in enumerate(there):
            at = box.x + (number - (len(there) - 1) / 2) * apart
            found[id(edge), upper] = (at, box.y + box.height if upper else box.y)
    return found
