"""The report as one HTML page: the parts of it, for a template to set.

The text comes from a model that read documents from anywhere. So Markdown is rendered without raw HTML, links and images: the
only links are those that this file makes, from a citation to its source and back, and the page loads nothing.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from metaflow_agents.kits.research.quotations.marks import CITATION, find_marks
from metaflow_agents.kits.research.values import Listed, Quoted, Report
from metaflow_agents.schema.model import Value
from metaflow_agents.schema.source import Unread

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_OPEN, _CLOSE = "\ue100", "\ue101"                          # where a quotation begins and ends, while Markdown is rendered
_MARKS = re.compile(f"([{_OPEN}{_CLOSE}])")
_OFF = ("image", "link", "autolink", "reference", "lheading")


class Set(Value):
    """A section, set: its number and heading as text, its body as HTML."""

    id: str
    number: int
    heading: str
    body: str


class Back(Value):
    """The way back from a source to a citation of it: the anchor and its number."""

    anchor: str
    number: int


class ShownSource(Value):
    """A source as the page shows it, with what was quoted of it and where it is cited."""

    id: str
    title: str
    by: str
    path: str
    detail: str
    notes: tuple[str, ...]
    cited: bool
    quotations: tuple[Quoted, ...]
    back: tuple[Back, ...]


class PageParts(Value):
    """What the template of the page sets. Only `summary` and `body` of sections are HTML; all else is text to be escaped."""

    title: str
    language: str
    question: str
    summary: str
    sections: tuple[Set, ...]
    sources: tuple[ShownSource, ...]
    unread: tuple[Unread, ...]
    quotations: int
    citations: int
    faults: tuple[str, ...]


def set_page(report: Report) -> PageParts:
    """The parts of the page of a report."""
    setter = _Setter(report)
    summary = setter.set(report.summary)
    sections = tuple(Set(id=one.id, number=number, heading=one.heading, body=setter.set(one.text))
                     for number, one in enumerate(report.sections, 1))
    return PageParts(
        title=report.title, language=report.language, question=report.question, summary=summary, sections=sections,
        sources=tuple(setter.shown(source) for source in report.sources), unread=report.unread,
        quotations=len(report.quotations), citations=report.citations, faults=report.faults)


class _Setter:
    """Renders the Markdown of one report; counts its citations through."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._sources = {source.id: source for source in report.sources}
        self._back: dict[str, list[Back]] = defaultdict(list)
        self._cited = 0
        self._markdown = _markdown(report.language)

    def set(self, text: str) -> str:
        """Markdown as HTML, quotations and citations marked as such."""
        tokens = self._markdown.parse(_marked(_MARKS.sub("", text)))
        quoting = 0
        for number, token in enumerate(tokens):
            quoting += token.nesting if token.type.startswith("blockquote") else 0
            if token.type in ("heading_open", "heading_close"):
                token.tag = f"h{max(3, int(token.tag[1]))}"              # below the section's own heading
            elif quoting and token.content.startswith(("—", "–", "-- ")):
                tokens[number - 1].attrSet("class", "by")                # who said it, under a block quote
            if token.children is not None:
                token.children = list(self._linked(_paired(token.children)))
        return str(self._markdown.renderer.render(tokens, self._markdown.options, {}))

    def shown(self, source: Listed) -> ShownSource:
        """A source with its quotations and the ways back."""
        kind = {"pdf": "PDF", "html": "HTML", "markdown": "Markdown", "text": "text"}[source.kind]
        size = f"{source.pages:,} page{'s' * (source.pages != 1)}" if source.pages is not None else f"{source.words:,} words"
        quoted = tuple(quotation for quotation in self._report.quotations if quotation.source == source.id)
        by = ", ".join(part for part in (source.author, source.date) if part)
        return ShownSource(
            id=source.id,
            title=source.title,
            by=by,
            path=source.path,
            detail=f"{kind}, {size}",
            notes=source.notes,
            cited=source.cited,
            quotations=quoted,
            back=tuple(self._back[source.id]),
        )

    def _linked(self, tokens: list[Token]) -> Iterator[Token]:
        """Inline tokens with citations as links and quotations in `<q>`."""
        for token in tokens:
            if token.type != "text":
                if token.type == "code_inline":
                    token.content = _MARKS.sub("", token.content)
                yield token
                continue
            at = 0
            for found in CITATION.finditer(token.content):
                yield from _quoted(token, token.content[at:found.start()])
                yield _raw(self._citation(found[1]))
                at = found.end()
            yield from _quoted(token, token.content[at:])

    def _citation(self, inner: str) -> str:
        """`S2, p. 4; S3` as links to the sources, in brackets."""
        parts = []
        for part in re.split(r"\s*(?:[;&]|,(?=\s*S\d))\s*", inner):
            name = re.match(r"S\d+", part)
            source = self._sources.get(name[0]) if name else None
            if source is None:
                parts.append(html.escape(part))
                continue
            self._cited += 1
            anchor = f"c{self._cited}"
            self._back[source.id].append(Back(anchor=anchor, number=len(self._back[source.id]) + 1))
            parts.append(f'<a id="{anchor}" href="#{source.id}" title="{html.escape(source.title)}">{html.escape(part)}</a>')
        return f'<span class="cite">[{"; ".join(parts)}]</span>'


def _markdown(language: str) -> MarkdownIt:
    """Markdown without HTML, links and images. English gets typographic quotation marks, others keep what was written."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "typographer": True}).enable("table").disable(list(_OFF))
    return made.enable("smartquotes") if language.split("-")[0] == "en" else made


def _marked(text: str) -> str:
    """The text with the ends of each quotation marked, inside its signs."""
    places = [(quotation.start, quotation.end) for quotation in find_marks(text).quotations
              if quotation.counts and not quotation.block]
    for start, end in reversed(places):
        text = f"{text[:start]}{_OPEN}{text[start:end]}{_CLOSE}{text[end:]}"
    return text


def _paired(tokens: list[Token]) -> list[Token]:
    """Tokens whose marks come in pairs on one level of emphasis: others would give HTML that is not nested."""
    depth = 0
    opened: list[int] = []
    fine = True
    for token in tokens:
        depth += token.nesting
        if token.type != "text":
            continue
        for mark in _MARKS.findall(token.content):
            if mark == _OPEN:
                opened.append(depth)
            else:
                fine = fine and bool(opened) and opened.pop() == depth
    if not fine or opened:
        for token in tokens:
            if token.type == "text":
                token.content = _MARKS.sub("", token.content)
    return tokens


def _quoted(token: Token, text: str) -> Iterator[Token]:
    """A stretch of text, with the marks of quotations turned into elements."""
    for part in _MARKS.split(text):
        if part in (_OPEN, _CLOSE):
            yield _raw("<q>" if part == _OPEN else "</q>")
        elif part:
            yield token.copy(content=part)


def _raw(markup: str) -> Token:
    """HTML that this file made."""
    from markdown_it.token import Token

    return Token("html_inline", "", 0, content=markup)
