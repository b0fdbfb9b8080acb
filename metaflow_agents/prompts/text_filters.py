"""Filters that change a text, take it apart, or set one."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from metaflow_agents.errors import ExpressionError
from metaflow_agents.prompts.filter_making import Filter, registering, spent_text, whole
from metaflow_agents.prompts.limits import spend, spend_text
from metaflow_agents.prompts.operations import as_json, formatted, kind

TEXT_FILTERS: dict[str, Filter] = {}
_filter = registering(TEXT_FILTERS)


def _on_text(name: str, change: Callable[[str], str]) -> None:
    def apply(value: Any) -> str:
        return change(spent_text(value))
    apply.__doc__ = f"The text in {name} form."
    TEXT_FILTERS[name] = apply


_CHANGES: dict[str, Callable[[str], str]] = {
    "lower": str.lower, "upper": str.upper, "capitalize": str.capitalize, "string": str,
    "title": lambda text: re.sub(r"\S+", lambda word: word[0].capitalize(), text),
    "escape": html.escape, "e": html.escape, "urlencode": lambda text: quote(text, safe="/"),
}
for _name, _change in _CHANGES.items():
    _on_text(_name, _change)


_BLANKS = re.compile(r"[ \t\r\n\f\v]+")
_MARKS = re.compile(r"([!-/:-@\[-`{-~])")


@_filter("markdown_text")
def markdown_text(value: Any) -> str:
    """The text in one line, so that Markdown shows it as it is written: each ASCII punctuation mark behind a backslash.

    Space at its ends is left out, and several blanks or line breaks are one blank: Markdown would read them otherwise.
    """
    text = spent_text(value)
    spend_text(2 * len(text))
    return _MARKS.sub(r"\\\1", _BLANKS.sub(" ", text).strip(" "))


@_filter("trim")
def trim(value: Any, characters: str | None = None) -> str:
    """Without space (or those characters) at both ends."""
    return spent_text(value).strip(characters)


@_filter("lines")
def lines(value: Any) -> list[str]:
    """The lines of a text."""
    found = spent_text(value).splitlines()
    spend(len(found))
    return found


@_filter("split")
def split(value: Any, separator: str | None = None, limit: int = -1) -> list[str]:
    """The parts of a text between separators, or between spaces."""
    if separator == "":
        raise ExpressionError("the separator of `split` is empty; fix: `| list` gives the characters")
    found = spent_text(value).split(separator, limit)
    spend(len(found))
    return found


@_filter("wordcount")
def wordcount(value: Any) -> int:
    """How many words."""
    return len(re.findall(r"\w+", spent_text(value)))


@_filter("replace")
def replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    """Every occurrence (or the first so many) of a text replaced."""
    text, old, new = spent_text(value), spent_text(old), spent_text(new)
    found = text.count(old)
    spend_text(len(text) + max(len(new) - len(old), 0) * (found if count is None or count < 0 else min(found, count)))
    return text.replace(old, new, -1 if count is None else count)


@_filter("center")
def center(value: Any, width: int = 80) -> str:
    """In the middle of so many characters."""
    spend_text(whole(width, "the width"))
    return spent_text(value).center(width)


@_filter("indent")
def indent(value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    """Every line but the first indented by so many spaces, or by a text."""
    margin = width if isinstance(width, str) else " " * whole(width, "an indent", 0, 1000)
    text = spent_text(value)
    spend_text(len(text) + len(margin) * (text.count("\n") + 1))
    head, *rest = text.split("\n")
    moved = [margin + line if line or blank else line for line in rest]
    return "\n".join([margin + head if first else head, *moved])


@_filter("wordwrap")
def wordwrap(
    value: Any, width: int = 79, break_long_words: bool = True, wrapstring: str = "\n", break_on_hyphens: bool = True,
) -> str:
    """Broken into lines of so many characters."""
    text, size = spent_text(value), whole(width, "the width", 1)
    longest = max(map(len, text.split()), default=0)
    spend(len(text) // 4 + longest * longest // (size * 2000))        # a long word is copied once for every line of it
    wrapped = [line for paragraph in text.splitlines()
               for line in textwrap.wrap(paragraph, size, expand_tabs=False, replace_whitespace=False,
                                         break_long_words=break_long_words, break_on_hyphens=break_on_hyphens) or [""]]
    spend_text(len(text) + len(wrapped) * len(spent_text(wrapstring)))
    return spent_text(wrapstring).join(wrapped)


@_filter("truncate")
def truncate(value: Any, size: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5) -> str:
    """At most so many characters, ended by `...`, cut between words."""
    text, most = spent_text(value), whole(size, "the size", len(end))
    if len(text) <= most + leeway:
        return text
    kept = text[:most - len(end)]
    return (kept if killwords else kept.rsplit(" ", 1)[0]) + end


@_filter("format")
def format_text(value: Any, *args: Any, **named: Any) -> str:
    """Printf formatting: `'%s has %d' | format(name, count)`."""
    if not isinstance(value, str):
        raise ExpressionError(f"`format` takes a text, this is {kind(value)}")
    return formatted(value, args, named)


@_filter("tojson", "json")
def tojson(value: Any, indent: int | None = None) -> str:
    """JSON, in the order of the fields; `indent=2` over several lines."""
    return as_json(value, indent)
