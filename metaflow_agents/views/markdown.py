"""Markdown that somebody else wrote, rendered for a terminal: headings, lists, tables and code, and nothing that acts."""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from metaflow_agents.printing import redacted
from metaflow_agents.views.page import Page, safe

if TYPE_CHECKING:
    from markdown_it.token import Token

LONGEST = 200_000                   # characters; longer ones are shown as they are written
_ENDINGS = (".md", ".markdown")


def is_markdown(path: str | None) -> bool:
    """Whether a file of that name holds Markdown."""
    return path is not None and PurePosixPath(path).suffix.lower() in _ENDINGS


def markdown_lines(text: str, page: Page) -> list[str]:
    """The text as lines of at most `page.width` columns. Secrets are redacted first, for a line break would part them; links show
    their addresses and are no links of the terminal.
    """
    from rich.console import Console
    from rich.markdown import Markdown

    drawn = Markdown(safe(redacted(text), lines=True), hyperlinks=False, code_theme="ansi_dark")
    for token in drawn.parsed:
        _shown(token)
    out = io.StringIO()
    console = Console(file=out, width=page.width or 80, force_terminal=True, color_system="standard" if page.colour else None,
                      no_color=not page.colour, highlight=False, markup=False, emoji=False, legacy_windows=False)
    console.print(drawn)
    if page.colour:
        return [line.rstrip() for line in out.getvalue().splitlines()]
    from rich.text import Text
    return [line.rstrip() for line in Text.from_ansi(out.getvalue()).plain.splitlines()]


def _shown(token: Token) -> None:
    """Entities are letters by now: `&#27;` is an escape, which would be one of ours in what is drawn."""
    token.content = safe(redacted(token.content), lines=True)
    for name, value in token.attrs.items():
        if isinstance(value, str):
            token.attrs[name] = safe(redacted(value))
    for child in token.children or ():
        _shown(child)
