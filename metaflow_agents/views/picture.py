"""A SOP as a picture: SVG that needs no other file, no script and no font that is not there."""

from __future__ import annotations

from xml.sax.saxutils import escape

from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.layout import EDGE, KINDS, LETTER, LINE, Box, Layout, laid_out
from metaflow_agents.views.page import columns, safe

_FILL = {"role": "#e3edfb", "human": "#fdf0d2", "sop": "#ece4f9"}          # of a box, by the step's type; others grey
_STROKE = {"role": "#4a78b5", "human": "#b98513", "sop": "#7d5bb0"}
_DASH = {"needs": "", "wants": ' stroke-dasharray="7 4"', "sees": ' stroke-dasharray="2 4"'}
_LEGEND = 28                            # pixels
_STYLE = """\
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2933}
.name{font-weight:bold}.quiet{fill:#52606d}path{fill:none;stroke:#52606d;stroke-width:1.4}.back{stroke:#c2570c}"""


def svg(sop: SOP, graph: SOPGraph) -> list[str]:
    """The picture, line by line: boxes for steps, pills for inputs and outputs, an arrow from each maker to each reader,
    but where a chain of others leads there, too.
    """
    return _drawn(sop.sop, laid_out(sop, graph))


def _drawn(name: str, layout: Layout) -> list[str]:
    edges = [edge for edge in layout.edges if not edge.aside]
    there = {(edge.kind, edge.back) for edge in edges}
    legend = [(kind, back) for kind in KINDS for back in (False, True) if (kind, back) in there]
    words = [f"{kind}{', back' if back else ''}" for kind, back in legend]
    width = max(layout.width, 2 * EDGE + sum(columns(word) * LETTER + 62 for word in words))
    height = layout.height + _LEGEND
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
             f'height="{height:.0f}" role="img">',
             f"<title>{_text(f'Steps of the SOP {name}')}</title>", f"<style>{_STYLE}</style>",
             "<defs>", *(f'<marker id="{mark}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                         'orient="auto">'
                         f'<path d="M0 0L8 4L0 8z" style="fill:{colour};stroke:none"/></marker>'
                         for mark, colour in (("to", "#52606d"), ("back", "#c2570c"))), "</defs>",
             f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" fill="#ffffff" stroke="#d9dfe5"/>']
    lines += [f'<path d="{layout.way(edge)}"{_DASH[edge.kind]}{_marked(edge.back)}/>' for edge in edges]
    for box in layout.boxes:
        lines += _shape(box) if box.lines else ()
    x = float(EDGE)
    for (kind, back), word in zip(legend, words, strict=True):
        lines.append(f'<path d="M{x:.0f} {height - 20:.0f}h30"{_DASH[kind]}{_marked(back)}/>')
        lines.append(f'<text x="{x + 38:.0f}" y="{height - 16:.0f}" class="quiet">{_text(word)}</text>')
        x += columns(word) * LETTER + 62
    return [*lines, "</svg>"]


def _marked(back: bool) -> str:
    return ' class="back" marker-end="url(#back)"' if back else ' marker-end="url(#to)"'


def _shape(box: Box) -> list[str]:
    fill, stroke = (("#ffffff", "#52606d") if box.kind == "end" else
                    (_FILL.get(box.kind, "#eef1f4"), _STROKE.get(box.kind, "#7b8794")))
    round_, left = (box.height / 2 if box.kind == "end" else 6), box.x - box.width / 2
    lines = [f'<rect x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{round_:.0f}" '
             f'fill="{fill}" stroke="{stroke}"/>']
    for number, line in enumerate(box.lines):
        style = "quiet" if number or box.kind == "end" else "name"
        lines.append(f'<text x="{box.x:.1f}" y="{box.y + 19 + number * LINE:.1f}" text-anchor="middle" class="{style}">'
                     f"{_text(line)}</text>")
    return lines


def _text(text: str) -> str:
    return escape(safe(text))
