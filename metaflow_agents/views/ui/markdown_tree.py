"""Markdown as a tree of elements from a fixed list, so that a page builds it and never reads markup.

    {"tag": "p", "children": ["Some ", {"tag": "em", "children": ["words"]}]}

Raw HTML is text. A link has `href` where it leads to http, https or mailto; any other is text with its address beside it.
A picture is its description: a page loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from metaflow_agents.views.ui.code import code_lines, language_named
from metaflow_agents.views.ui.texts import clean

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

LONGEST, LINES = 150_000, 4_000
"""Characters and lines; a longer text is shown as it is written."""
TAGS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s",
                  "a", "table", "thead", "tbody", "tr", "th", "td", "hr", "br"})
"""All tags that a tree may hold."""
_LONGEST_PARAGRAPH = 3_000          # characters; a longer one is text
_SECONDS = 1.0
_DEEPEST, _NODES = 40, 30_000
_LINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"]+", re.IGNORECASE)
_SHOWN_ADDRESS = 300

Node = str | dict[str, Any]


def markdown_tree(written: str) -> list[Node] | None:
    """The text as a tree; None where it is too long to be one."""
    cleaned = clean(written)
    if len(cleaned) > LONGEST or cleaned.count("\n") > LINES:
        return None
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    reader.enable(["table", "strikethrough"]).disable("reference")
    reader.core.ruler.at("inline", _inline)
    tree = _Tree()
    tree.take(reader.parse(cleaned))
    return tree.nodes if tree.count <= _NODES else None


def _inline(state: StateCore) -> None:
    """What stands in paragraphs and cells, each read for itself: of a long one the reader's time grows faster than it. What
    there is no time for stays text.
    """
    until = monotonic() + _SECONDS
    for token in state.tokens:
        if token.type != "inline":
            continue
        if len(token.content) > _LONGEST_PARAGRAPH or monotonic() > until:
            token.children = [token.copy(type="text", children=None)]
        else:
            token.children = []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


class _Tree:
    """What comes of a list of tokens: opening and closing ones pair up."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._open: list[list[Node]] = [self.nodes]
        self.count = 0

    def take(self, tokens: Sequence[Token]) -> None:
        """One token after the other."""
        for token in tokens:
            self._take(token)

    def _take(self, token: Token) -> None:
        if token.type == "inline":
            self.take(token.children or ())
        elif token.nesting == 1:
            self._begin(token)
        elif token.nesting == -1:
            if len(self._open) > 1:
                self._open.pop()
        elif token.type in ("fence", "code_block"):
            language = language_named(token.info)
            self._add({"tag": "pre", "lines": code_lines(clean(token.content), language),
                       **({"language": language} if language else {})})
        elif token.type == "code_inline":
            self._add({"tag": "code", "children": [clean(token.content)]})
        elif token.type == "image":
            self._text(f"[picture: {token.content or 'without a description'}]{_address(_attribute(token, 'src'))}")
        elif token.type in ("hardbreak", "hr"):
            self._add({"tag": "br" if token.type == "hardbreak" else "hr"})
        else:
            self._text("\n" if token.type == "softbreak" else token.content)

    def _begin(self, token: Token) -> None:
        if token.hidden:                            # the paragraph of an item of a tight list
            self._open.append(self._open[-1])
            return
        children: list[Node] = []
        node: dict[str, Any] = {"tag": token.tag if token.tag in TAGS else "p", "children": children}
        if token.tag == "a":
            address = _attribute(token, "href")
            if _LINK.fullmatch(address) and len(address) <= 2_000:
                node["href"] = address
            else:                                   # its words, and the address as words
                node = {"tag": "code", "children": children}
                self._add(node)
                children = self._open[-1]
                self._text(_address(address))
                self._open.append(node["children"])
                return
        if token.tag == "ol" and (start := _attribute(token, "start")):
            node["start"] = int(start) if start.isdecimal() and len(start) < 10 else 1
        if (align := re.search(r"text-align:(left|right|center)", _attribute(token, "style"))) is not None:
            node["align"] = align[1]
        self._add(node)
        self._open.append(children)

    def _add(self, node: Node) -> None:
        self.count += 1
        self._open[-1].append(node)

    def _text(self, written: str) -> None:
        """Entities are letters by now: `&#27;` is an escape."""
        text = clean(written)
        if text and self._open[-1] and isinstance(self._open[-1][-1], str):
            self._open[-1][-1] += text
        elif text:
            self._add(text)


def _attribute(token: Token, name: str) -> str:
    return clean(str(token.attrs.get(name, "")))


def _address(address: str) -> str:
    return f" ({address[:_SHOWN_ADDRESS]})" if address else ""
