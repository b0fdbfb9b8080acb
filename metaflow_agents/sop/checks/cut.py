"""Expressions whose end YAML cut off: at ` #`, or at a comma or bracket of flow style."""

from __future__ import annotations

import re

from metaflow_agents.sop.checks.context import Context, Place

_OPEN_END = re.compile(r"(?:[-+*/%~|=<>,.(\[{:]|\b(?:and|or|not|in|is|if|else))\s*$")
_PAIRS = {")": "(", "]": "[", "}": "{"}


def told(c: Context, where: Place, text: str) -> bool:
    """Tells that YAML cut an expression; True where there is nothing left to analyse."""
    if not _unfinished(text):
        return False
    comment = c.loaded.places.comment_after(where)
    if comment is not None:
        c.say("cut-comment", where, f"YAML ended this expression at ` #`: what is left is `{text}`",
              f"put the whole expression in quotes: {_quoted(f'{text} #{comment}')}")
        return True
    if c.loaded.places.flow(where):
        c.say("cut-comma", where, f"YAML ended this expression at a comma or bracket: what is left is `{text}`",
              "put the whole expression in quotes; inside `{…}` and `[…]` a comma ends a value")
        return True
    return False


def _unfinished(text: str) -> bool:
    """Whether brackets or quotes stay open, or an operator stands at the end."""
    open_: list[str] = []
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            open_.append(character)
        elif character in _PAIRS and open_ and open_[-1] == _PAIRS[character]:
            open_.pop()
    return bool(quote or open_ or _OPEN_END.search(text))


def _quoted(text: str) -> str:
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    return f"'{shown}'" if "'" not in shown else f'"{shown}"' if '"' not in shown else "'" + shown.replace("'", "''") + "'"
