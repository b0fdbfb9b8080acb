"""Markdown that somebody else wrote, rendered for a terminal: headings, lists, tables and code, and nothing that acts."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from metaflow_agents.terminal.printing import redacted
from metaflow_agents.views.page import Page, safe

LONGEST = 200_000                   # characters; longer ones are shown as they are written
_ENDINGS = (".md", ".markdown")


def is_markdown(path: str | None) -> bool:
    """Whether a file of that name holds Markdown."""
    return path is not None and PurePosixPath(path).suffix.lower() in _ENDINGS


def markdown_lines(text: str, page: Page) -> list[str]:
    """The text as lines of at most `page.width` columns. Secrets are redacted first, for a line break would part them; links show
    their addresses and are no links of the terminal.
    """
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.markdown import Markdown

    drawn = Markdown(safe(redacted(text), lines=True), hyperlinks=False, code_theme="ansi_dark")
    for token in drawn.parsed:
        _shown(token)
    width = page.width or 80
    console = Console(width=width, force_terminal=True, highlight=False, markup=False, emoji=False, legacy_windows=False)
    system = ColorSystem.STANDARD if page.colour else None
    lines = console.render_lines(drawn, console.options.update(width=width), pad=False)
    return ["".join(part.style.render(part.text, color_system=system) if part.style else part.text for part in line).rstrip()
            for line in lines]


def _shown(token: Any) -> None:
    """Entities are letters by now: `&#27;` is an escape, which would be one of ours in what is drawn. The tokens are those of
    markdown-it, with which `rich` reads the text.
    """
    token.content = safe(redacted(token.content), lines=True)
    for name, value in token.attrs.items():
        if isinstance(value, str):
            token.attrs[name] = safe(redacted(value))
    for child in token.children or ():
        _shown(child)
