"""HTML to text that reads like Markdown: headings, paragraphs, lists and tables stay; what a reader does not see goes.

The tree is built by the HTML standard's own algorithm (selectolax, on the Lexbor engine): a page with unclosed or
wrongly nested tags must not lose its rest to a `hidden` that was never closed. Style sheets are not applied.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from metaflow_agents.documents.decoding import Unreadable, decoded, is_utf8

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_CHARSET = re.compile(rb"""(?:<meta\b[^>]*?charset\s*=\s*["']?|<\?xml\b[^>]*?encoding\s*=\s*["'])\s*([\w.:+-]+)""", re.IGNORECASE)
_DROPPED = {"script", "style", "template", "noscript", "iframe", "object", "embed", "svg", "canvas", "audio", "video", "head",
            "nav", "button", "select", "textarea", "input", "datalist", "dialog", "map", "math", "-comment", "rt", "rp"}
_BLOCKS = {"address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
           "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li", "main", "ol", "p", "pre", "section",
           "summary", "table", "tbody", "tfoot", "thead", "tr", "ul", "caption", "search"}
_CONCEALED = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_METAS = {"author": ("author", "article:author", "dc.creator", "citation_author"),
          "date": ("date", "article:published_time", "dc.date", "citation_publication_date", "citation_date")}
_SPACE = re.compile(r"[ \t\n\f\r]+")                        # HTML's own white space: a no-break space is text


def read_html(data: bytes) -> tuple[dict[str, str], str]:
    """(what it tells of itself, text) of an HTML page: `title`, `author` and `date`, empty where it does not tell them.

    Raises Unreadable.
    """
    from selectolax.lexbor import LexborHTMLParser

    found = _CHARSET.search(data[:2048])
    declared = found[1].decode("ascii") if found else None
    if declared is None and not is_utf8(data):
        declared = "windows-1252"               # what the HTML standard has a Western reader assume
    tree = LexborHTMLParser(decoded(data, declared))
    heads = [node.text(deep=True) for query in ("head > title", "h1") for node in tree.css(query)]
    metas = {(node.attributes.get("name") or node.attributes.get("property") or "").lower(): node.attributes.get("content") or ""
             for node in reversed(tree.css("meta"))}                          # of two of a name the first counts
    told = {"title": heads, **{what: [metas.get(name, "") for name in names] for what, names in _METAS.items()}}
    head = {what: next((text for text in (_SPACE.sub(" ", one).strip() for one in texts) if text), "")
            for what, texts in told.items()}
    return head, "" if tree.body is None else _Reader().read(tree.body)


def html_job(data: bytes) -> dict[str, Any]:
    """`read_html` for a worker: its values, or why there are none."""
    try:
        head, text = read_html(data)
    except Unreadable as error:
        return {"unreadable": str(error)}
    return {"head": head, "text": text}


class _Reader:
    """Walks a tree without recursion (pages may be nested as deep as they like) and gathers blocks of text."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._start = ""                        # what the next block begins with: `## `, `- `
        self._verbatim = 0

    def read(self, top: LexborNode) -> str:
        node: LexborNode | None = top
        while node is not None:
            inner = self._enter(node)
            following = node.first_child if inner else None
            while following is None and node is not None:
                self._leave(node)
                if node.mem_id == top.mem_id:
                    node = None
                    break
                following = node.next
                if following is None:
                    node = node.parent
            node = following
        self._flush()
        return "\n\n".join(self._blocks).replace("\n\n- ", "\n- ")

    def _enter(self, node: LexborNode) -> bool:
        """Takes in what a node says at its start; whether its children are to be read."""
        tag = node.tag or ""
        if tag == "-text":
            text = node.text(deep=False)
            self._line.append(text if self._verbatim else _SPACE.sub(" ", text))
            return False
        if tag in _DROPPED or _is_hidden(node) or _is_note_mark(node, tag):
            return False
        if tag == "br":
            self._line.append("\n")
        elif tag in ("td", "th"):
            if "".join(self._line).strip():
                self._line.append(" | ")
        elif tag == "q":
            self._line.append("“")
        elif tag in _BLOCKS or _level(tag):
            self._flush()
            if _level(tag):
                self._start = "#" * _level(tag) + " "
            elif tag == "li":
                self._start = "- "
            self._verbatim += tag == "pre"
        return True

    def _leave(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "q" and not _is_hidden(node):
            self._line.append("”")
        elif tag in _BLOCKS or _level(tag):
            self._flush()
            if tag == "li" or _level(tag):
                self._start = ""
            if tag == "pre" and not _is_hidden(node):
                self._verbatim = max(0, self._verbatim - 1)

    def _flush(self) -> None:
        text = "".join(self._line)
        self._line = []
        lines = (line.rstrip() if self._verbatim else line.strip() for line in text.split("\n"))
        text = "\n".join(line for line in lines if line)
        if text:
            self._blocks.append(self._start + text)
            self._start = ""


def _level(tag: str) -> int:
    return int(tag[1]) if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456" else 0


def _is_hidden(node: LexborNode) -> bool:
    found = node.attributes
    return "hidden" in found or bool(_CONCEALED.search(found.get("style") or ""))


def _is_note_mark(node: LexborNode, tag: str) -> bool:
    """A raised number that leads to a note. Other raised text is text: the ² of km²."""
    if node.attributes.get("role") == "doc-noteref":
        return True
    return tag == "sup" and (node.css_first("a") is not None or (node.parent is not None and node.parent.tag == "a"))
