"""A SOP as a picture: SVG that needs no other file, no script and no font that is not there.

Each step is a layer below what it reads. The order within a layer keeps crossings few (barycenters); positions are the least
squares of the distances between neighbours. An edge that crosses several layers gets one place in each of them.
Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE SMC 11 (1981).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from xml.sax.saxutils import escape

from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph, makes, outputs_of, reads
from metaflow_agents.views.graph import edges_of, worker_of
from metaflow_agents.views.page import columns, cut, safe

_LETTER, _LINE, _PAD, _GAP, _BETWEEN, _EDGE = 7.3, 17, 14, 26, 46, 16      # pixels: a letter's width, a line's height, spaces
_MOST = 34                                                          # letters of a line in a box
_SWEEPS = 8
_FILL = {"role": "#e3edfb", "human": "#fdf0d2", "sop": "#ece4f9"}          # of a box, by the step's type; others grey
_STROKE = {"role": "#4a78b5", "human": "#b98513", "sop": "#7d5bb0"}
_DASH = {"needs": "", "wants": ' stroke-dasharray="7 4"', "sees": ' stroke-dasharray="2 4"'}
_STYLE = """\
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2933}
.name{font-weight:bold}.quiet{fill:#52606d}path{fill:none;stroke:#52606d;stroke-width:1.4}.back{stroke:#c2570c}"""


@dataclass(slots=True, eq=False)
class _Box:
    """A step, an input or an output; without lines a place that an edge is led through."""

    layer: int
    lines: Sequence[str] = ()
    kind: str = ""
    above: list[_Box] = field(default_factory=list)
    below: list[_Box] = field(default_factory=list)
    x: float = 0.0                      # of its centre, in pixels
    y: float = 0.0                      # of its top

    @property
    def width(self) -> float:
        return max(map(columns, self.lines)) * _LETTER + 2 * _PAD if self.lines else 10

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 14 if self.lines else 0


@dataclass(slots=True)
class _Edge:
    """`chain`: its boxes from the upper to the lower one. `back`: it leads from the lower to the upper."""

    chain: list[_Box]
    kind: str
    back: bool


def svg(sop: SOP, graph: SOPGraph) -> list[str]:
    """The picture, line by line: boxes for steps, pills for inputs and outputs, an arrow from each maker to each reader."""
    boxes, edges = _boxes(sop, graph)
    layers: list[list[_Box]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))]
    for box in boxes:
        layers[box.layer].append(box)
    layers = [layer for layer in layers if layer]
    _order(layers)
    _place(layers)
    return _drawn(sop.sop, boxes, edges, layers)


def _boxes(sop: SOP, graph: SOPGraph) -> tuple[list[_Box], list[_Edge]]:
    kinds: dict[tuple[str, str], str] = {}
    for maker, reader, _, kind in edges_of(graph):
        first = kinds.get((maker, reader))
        kinds[maker, reader] = min(kind, first or kind, key=list(_DASH).index)
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
    found = {name: _Box(layer[name], [cut(safe(name.removeprefix("input:")), _MOST)], "end") for name in taken}
    for name, step in graph.steps.items():
        each = " ×n" if step.foreach else ""
        loop = f" ↻{step.rounds}" if step.rounds else ""
        lines = [name + loop, worker_of(step) + each, f"→ {' or '.join(makes(step))}"]
        found[name] = _Box(layer[name], [cut(safe(line), _MOST) for line in lines], step.doer)
    edges = []
    for (maker, reader), kind in kinds.items():
        back = upward[maker, reader]
        edges.append(_Edge([found[reader], found[maker]] if back else [found[maker], found[reader]], kind, back))
    for name in outputs_of(sop):
        above = [found[maker] for maker in graph.makers.get(name, ())]
        end = found[f"output:{name}"] = _Box(1 + max((box.layer for box in above), default=0), [cut(safe(name), _MOST)], "end")
        edges += [_Edge([box, end], "needs", False) for box in above]
    boxes = list(found.values())
    for edge in edges:
        top, bottom = edge.chain
        way = [_Box(number) for number in range(top.layer + 1, bottom.layer)]
        edge.chain[1:1] = way
        boxes += way
        for upper_box, lower_box in pairwise(edge.chain):
            upper_box.below.append(lower_box)
            lower_box.above.append(upper_box)
    return boxes, edges


def _goes_back(edge: tuple[str, str], graph: SOPGraph) -> bool:
    """Whether an edge closes a loop: it leads to a step of its own loop with a lower rank. Without these there is no cycle."""
    maker, reader = edge
    return maker in graph.steps and graph.loop[maker] == graph.loop[reader] and graph.rank(reader) < graph.rank(maker)


def _order(layers: list[list[_Box]]) -> None:
    """Sorts each layer by the mean place of what its boxes are joined to, down and up again."""
    place = {box: number for layer in layers for number, box in enumerate(layer)}

    def sort(layer: list[_Box], joined: str) -> None:
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


def _place(layers: list[list[_Box]]) -> None:
    top = float(_EDGE)
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
            box.x += _EDGE - left


def _align(layer: list[_Box], wished: Sequence[float]) -> None:
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


def _drawn(name: str, boxes: Sequence[_Box], edges: Sequence[_Edge], layers: Sequence[Sequence[_Box]]) -> list[str]:
    there = {(edge.kind, edge.back) for edge in edges}
    legend = [(kind, back) for kind in _DASH for back in (False, True) if (kind, back) in there]
    words = [f"{kind}{', back' if back else ''}" for kind, back in legend]
    width = max(max((box.x + box.width / 2 for box in boxes), default=0) + _EDGE,
                2 * _EDGE + sum(columns(word) * _LETTER + 62 for word in words))
    bottom = max((box.y + box.height for layer in layers for box in layer), default=0)
    height = bottom + 44
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
             f'height="{height:.0f}" role="img">',
             f"<title>{_text(f'Steps of the SOP {name}')}</title>", f"<style>{_STYLE}</style>",
             "<defs>", *(f'<marker id="{mark}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                         'orient="auto">'
                         f'<path d="M0 0L8 4L0 8z" style="fill:{colour};stroke:none"/></marker>'
                         for mark, colour in (("to", "#52606d"), ("back", "#c2570c"))), "</defs>",
             f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" fill="#ffffff" stroke="#d9dfe5"/>']
    ends = _ends(edges)
    lines += [_path(edge, ends) for edge in edges]
    for box in boxes:
        lines += _shape(box) if box.lines else ()
    x = float(_EDGE)
    for (kind, back), word in zip(legend, words, strict=True):
        lines.append(f'<path d="M{x:.0f} {height - 20:.0f}h30"{_DASH[kind]}{_marked(back)}/>')
        lines.append(f'<text x="{x + 38:.0f}" y="{height - 16:.0f}" class="quiet">{_text(word)}</text>')
        x += columns(word) * _LETTER + 62
    return [*lines, "</svg>"]


def _ends(edges: Iterable[_Edge]) -> dict[tuple[int, bool], tuple[float, float]]:
    """(edge, whether its upper end) → where it touches its box: side by side, in the order of what they lead to."""
    touching: dict[tuple[_Box, bool], list[_Edge]] = {}
    for edge in edges:
        touching.setdefault((edge.chain[0], True), []).append(edge)
        touching.setdefault((edge.chain[-1], False), []).append(edge)
    found = {}
    for (box, upper), there in touching.items():
        there.sort(key=lambda edge: (edge.chain[1] if upper else edge.chain[-2]).x)
        apart = min(22.0, (box.width - 16) / len(there))
        for number, edge in enumerate(there):
            at = box.x + (number - (len(there) - 1) / 2) * apart
            found[id(edge), upper] = (at, box.y + box.height if upper else box.y)
    return found


def _path(edge: _Edge, ends: dict[tuple[int, bool], tuple[float, float]]) -> str:
    points = [ends[id(edge), True], *((box.x, box.y + 25) for box in edge.chain[1:-1]), ends[id(edge), False]]
    if edge.back:
        points.reverse()
    (x, y), *rest = points
    way = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in rest:
        half = (to_y - y) / 2
        way += f"C{x:.1f} {y + half:.1f} {to_x:.1f} {to_y - half:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return f'<path d="{way}"{_DASH[edge.kind]}{_marked(edge.back)}/>'


def _marked(back: bool) -> str:
    return ' class="back" marker-end="url(#back)"' if back else ' marker-end="url(#to)"'


def _shape(box: _Box) -> list[str]:
    fill, stroke = (("#ffffff", "#52606d") if box.kind == "end" else
                    (_FILL.get(box.kind, "#eef1f4"), _STROKE.get(box.kind, "#7b8794")))
    round_, left = (box.height / 2 if box.kind == "end" else 6), box.x - box.width / 2
    lines = [f'<rect x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{round_:.0f}" '
             f'fill="{fill}" stroke="{stroke}"/>']
    for number, line in enumerate(box.lines):
        style = "quiet" if number or box.kind == "end" else "name"
        lines.append(f'<text x="{box.x:.1f}" y="{box.y + 19 + number * _LINE:.1f}" text-anchor="middle" class="{style}">'
                     f"{_text(line)}</text>")
    return lines


def _text(text: str) -> str:
    return escape(safe(text))
