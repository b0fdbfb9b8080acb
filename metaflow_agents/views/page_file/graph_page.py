"""A SOP as one file for a browser: its graph, and what `sop check` says. No script; the picture is an image, which runs none."""

from __future__ import annotations

import base64
from hashlib import sha256
from html import escape

from metaflow_agents.schema.sop import SOP
from metaflow_agents.sop.check import CheckReport
from metaflow_agents.sop.graph import SOPGraph
from metaflow_agents.views.checked import report_lines
from metaflow_agents.views.graph import drawing
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.picture import svg

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; padding: 0 1rem; max-width: 75rem }
img { max-width: 100%; height: auto }
pre { overflow-x: auto; padding: 1rem; border: 1px solid #8886; border-radius: 6px; font: 13px/1.5 ui-monospace, monospace }
"""
_WIDTH = 120


def graph_page(sop: SOP, graph: SOPGraph, report: CheckReport) -> str:
    """The HTML. `report`: what was found when the SOP was checked."""
    picture = base64.b64encode("\n".join(svg(sop, graph)).encode()).decode()
    page, name = Page(_WIDTH), escape(safe(sop.sop))
    style = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{style}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name} · sop graph</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{name}</h1>
<p>{escape(safe(sop.description or ""))}</p>
<img src="data:image/svg+xml;base64,{picture}" alt="The steps of the SOP, as the list below has them">
<h2>Steps</h2>
<pre>{_lines(drawing(sop, graph, page))}</pre>
<h2>Check</h2>
<pre>{_lines(report_lines(report, page))}</pre>
</main>
</body>
</html>
"""


def _lines(lines: list[str]) -> str:
    return escape("\n".join(lines))
