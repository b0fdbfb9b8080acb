"""The file itself: one HTML document with the pages' script and styles, and the data of one run, under a policy of its own.

The policy names the script and the styles by their hashes and lets nothing else in or out: what a model or a tool wrote is data,
and could it ever become markup, it would neither run nor load anything.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from metaflow_agents.terminal import printing
from metaflow_agents.tools.secrets import every_text
from metaflow_agents.views.page_file.bundle import bundled

STATIC = Path(__file__).parents[2] / "web" / "static"
_OWN = Path(__file__).parent / "file_api.js"
_ELSEWHERE = tuple(f"pages/{name}.js" for name in ("runs", "new_run", "inbox", "sop", "compare", "memory"))
_STYLES = ("app.css", "views.css")
_ACTING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def document(name: str, data: Mapping[str, Any], masked: Callable[[str], str]) -> str:
    """The HTML of a run's file; each text of the data goes through `masked`, keys too, after the secrets that this process knows
    are taken out. Raises RunError where the pages can't be bundled.
    """
    icon = f"data:image/svg+xml;base64,{base64.b64encode((STATIC / 'icon.svg').read_bytes()).decode()}"
    script = bundled("app.js", _text, _ELSEWHERE, {"api.js": _OWN.read_text(encoding="utf-8")}).replace('"icon.svg"', f'"{icon}"')
    styles = "\n".join(_text(one) for one in _STYLES)
    for part, end in ((script, "</script"), (styles, "</style")):
        if end in part.lower() or "<!--" in part:
            raise RuntimeError(f"a part of the page holds `{end}`, and would end there")
    policy = "; ".join((
        "default-src 'none'", f"script-src {_hash(script)}", f"style-src {_hash(styles)}", "img-src data: blob:",
        "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"))
    title = escape(printing.shown(f"{name} · sop"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="{icon}">
<style>{styles}</style>
</head>
<body>
<div id="app"></div>
<noscript>This file shows a run, and needs JavaScript to do it. Nothing in it is sent anywhere.</noscript>
<script type="application/json" id="sop-data">{embeddable(data, masked)}</script>
<script>{script}</script>
</body>
</html>
"""


def embeddable(data: Mapping[str, Any], masked: Callable[[str], str]) -> str:
    """The data as JSON that no text in it can leave: every letter that acts in HTML stands there by its number."""
    text = printing.as_json(every_text(data, lambda one: masked(printing.redacted(one))))
    for letter, escaped in _ACTING.items():
        text = text.replace(letter, escaped)
    return text


def _text(path: str) -> str:
    return (STATIC / path).read_text(encoding="utf-8")


def _hash(part: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(part.encode()).digest()).decode()}'"
