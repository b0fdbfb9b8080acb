"""What others wrote, made harmless for a page: secrets masked first, then letters that hide or act shown, then cut.

The order matters. A secret that is cut in two, or taken apart into words of code or of Markdown, is none that a mask would find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metaflow_agents.terminal.printing import redacted, shown

LONGEST = 20_000
"""Characters of a text that are sent unasked; the rest is asked for by its digest and path."""
WHOLE = 2_000_000
"""Characters of a text that are sent at all."""
_NAME = 200                         # characters of a key, a path or a line of a list
_DEEP, _WIDE, _VALUES = 30, 500, 5_000

Text = dict[str, Any]
"""`{"text": …}`, and where it was cut `cut`: characters in all, `digest` and `path`: where the whole of it is."""


def clean(text: str) -> str:
    """A text as a page shows it: without secrets, with line ends of one letter, and control characters, escapes and the controls
    of writing direction as signs.
    """
    return shown(redacted(text).replace("\r\n", "\n"), lines=True)


def text(written: str, digest: str = "", path: str = "", most: int = LONGEST) -> Text:
    """A text, cut where it is long. `digest` is that of the journal's blob, and `path` the place in its JSON."""
    return cut(clean(written), digest, path, most)


def cut(cleaned: str, digest: str = "", path: str = "", most: int = LONGEST) -> Text:
    """The same of a text that is clean already."""
    if len(cleaned) <= most:
        return {"text": cleaned}
    return {"text": cleaned[:most], "cut": len(cleaned), **({"digest": digest, "path": path} if digest else {})}


def line(written: str, most: int = _NAME) -> str:
    """A text in one line, for lists and labels."""
    one = " ".join(clean(written[:4 * most] if len(written) > WHOLE else written).split())
    return one if len(one) <= most else one[:most - 1] + "…"


def first_line(written: str, most: int = _NAME) -> str:
    """The first line of a text that says something."""
    return line(next((one for one in written.splitlines() if one.strip()), ""), most)


def bounded(value: Any) -> tuple[Any, bool]:
    """JSON data with clean texts, no deeper, wider or longer than a page can show; and whether something is left out."""
    return (bounds := _Bounds()).of(value, 0), bounds.cut


class _Bounds:
    """One walk through a value."""

    def __init__(self) -> None:
        self.cut, self._left = False, _VALUES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return self._text(value, LONGEST)
        if isinstance(value, Mapping):
            return {self._text(str(key), _NAME): self.of(inner, depth + 1) for key, inner in self._some(value.items(), depth)}
        if isinstance(value, list | tuple):
            return [self.of(inner, depth + 1) for inner in self._some(value, depth)]
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
            return str(value)                       # a page would round it
        return value

    def _some(self, items: Any, depth: int) -> Any:
        if depth >= _DEEP:
            self.cut = self.cut or bool(items)
            return
        for number, item in enumerate(items):
            if number >= _WIDE or self._left <= 0:
                self.cut = True
                return
            yield item

    def _text(self, value: str, most: int) -> str:
        cleaned = clean(value)
        self.cut = self.cut or len(cleaned) > most
        return cleaned if len(cleaned) <= most else cleaned[:most - 1] + "…"
