"""Finds the quotations and citations in a Markdown text.

The form, as a model finds it natural: `"exact words" [S2, p. 4]`, a plain `[S2]` or `[S1; S3, pp. 2–3]` behind what is said in
own words, and block quotes (`> …`) that end in a citation or are followed by one. A quotation belongs to the first citation
behind it in its paragraph. All kinds of double quotation marks count, and single ones around four words and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SHORT_WORDS = 3
"""Up to so many words in quotation marks are a term, not a quotation, unless a citation stands behind them in their sentence."""

CITATION = re.compile(r"\[(S\d[^\[\]\n]{0,200})\]")
_TARGET = re.compile(r"S(\d{1,5})\s*(?:[,:]?\s*(?:pp?\.?|pages?)?\s*(\d[\d\s,–—-]*?))?\s*(?:[;&]|,(?=\s*S\d)|\band\b|$)\s*")
_RANGE = re.compile(r"\s*(\d{1,6})(?:\s*[–—-]+\s*(\d{1,6}))?\s*")
_ODD_CITATION = re.compile(r"\((S\d{1,5}(?:,\s*pp?\.\s*[\d–-]+)?)\)|\[(s\d{1,5}[^\[\]\n]{0,40})\]")
# Opening sign → the signs that close it, the usual ones; then those that stand in for them; then what opens another inside.
_CLOSING = {"“": "”", "„": "“”", "«": "»", "»": "«", "\"": "\"”", "「": "」", "『": "』", "‘": "’'", "'": "'’"}
_INSTEAD = {"“": "\"", "„": "\"‟"}
_NESTED = {"\"": "“", "‘": "", "'": ""}
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+|\s*#{1,6}\s|\s*\|")
_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK_TITLE = re.compile(r"(?<=\]\()[^()\n]*(?=\))")
_SENTENCE_END = re.compile(r"[.!?。][*_)\]’”'\"]*\s+(?=[^\W\d_a-z]|[“\"„«])|[。！？]")
_ATTRIBUTION = re.compile(r"\n\s*(?:[-–—]{1,3}|—)\s*[^\n]*$")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\\w+(?:[-'’.]\\w+)*")


@dataclass(frozen=True, slots=True)
class Target:
    """One source that a citation names, with the pages it names: (first, last)."""

    source: str
    pages: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation and where it stands in the text. `targets` is empty where it can't be read."""

    start: int
    end: int
    text: str
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Quotation:
    """Words in quotation marks, or a block quote: their place (without the marks), their text, the citation that they belong
    to, and whether it is near: in the same sentence.
    """

    start: int
    end: int
    text: str
    citation: Citation | None
    near: bool
    block: bool = False

    @property
    def words(self) -> int:
        """How many words it has."""
        return count_words(self.text)

    @property
    def counts(self) -> bool:
        """Whether it is a quotation, and not a term in quotation marks."""
        return self.near or self.block or self.words > SHORT_WORDS


@dataclass(frozen=True, slots=True)
class Marks:
    """What was found in a text. `faults` are forms that can't be read."""

    quotations: tuple[Quotation, ...]
    citations: tuple[Citation, ...]
    faults: tuple[str, ...]


def count_words(text: str) -> int:
    """Words, or letters of scripts that write none apart."""
    return len(_WORD.findall(text))


def find_marks(text: str) -> Marks:
    """The quotations and citations of a Markdown text, in their order."""
    masked = _masked(text)
    citations = [Citation(found.start(), found.end(), found[0], _targets(found[1])) for found in CITATION.finditer(masked)]
    faults = [f"the citation {one.text} can't be read: write [S2], [S2, p. 4], [S2, pp. 4–5] or [S1; S3]"
              for one in citations if not one.targets]
    faults += [f"{found[0]} is no citation: write [{(found[1] or found[2]).upper().replace('P', 'p')}]"
               for found in _ODD_CITATION.finditer(masked)]
    quotations: list[Quotation] = []
    for start, end, block in _blocks(masked):
        if block:
            quotations += _block_quote(masked, start, end, citations)
        else:
            within = [one for one in citations if start <= one.start < end]
            quotations += _inline(masked, start, end, within, faults)
    return Marks(tuple(quotations), tuple(citations), tuple(faults))


def _masked(text: str) -> str:
    """The text with code and the targets of links blanked: what stands there is no prose. Places stay the same."""
    for pattern in (_FENCE, _CODE, _LINK_TITLE):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _targets(inner: str) -> tuple[Target, ...]:
    """What stands in a citation's brackets; nothing where any of it can't be read."""
    found: list[Target] = []
    at = 0
    while at < len(inner):
        target = _TARGET.match(inner, at)
        if target is None:
            return ()
        pages = []
        for written in (target[2] or "").split(",") if target[2] else []:
            span = _RANGE.fullmatch(written)
            if span is None:
                return ()
            pages.append((int(span[1]), int(span[2] or span[1])))
        found.append(Target(f"S{int(target[1])}", tuple(pages)))
        at = target.end()
    return tuple(found)


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether a block quote) of the paragraphs, list items, table rows and block quotes."""
    start: int | None = None
    quoted = False
    at = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        marked = stripped.startswith(">")
        fresh = not stripped or marked != quoted or (not marked and _ITEM.match(line) is not None)
        if start is not None and fresh:
            yield start, at, quoted
            start = None
        if start is None and stripped:
            start, quoted = at, marked
        at += len(line)
    if start is not None:
        yield start, at, quoted


def _block_quote(text: str, start: int, end: int, citations: list[Citation]) -> Iterator[Quotation]:
    """A block quote: its words are those before the citation that ends it, or all where the citation follows it."""
    inner = [one for one in citations if start <= one.start < end]
    citation = inner[-1] if inner and not _words_left(text[inner[-1].end:end]) else None
    if citation is not None:
        body = text[start:citation.start]
    else:
        body = text[start:end]
        following = next((one for one in citations if one.start >= end), None)
        if following is not None and not re.sub(r"[\s(—–-]", "", text[end:following.start]):
            citation = following
    body = _ATTRIBUTION.sub("", re.sub(r"^[ \t]*(?:>[ \t]?)+", "", body, flags=re.MULTILINE)) \
        if citation is not None else re.sub(r"^[ \t]*(?:>[ \t]?)+", "", body, flags=re.MULTILINE)
    body = _unwrapped(body.strip().rstrip("(—– \n"))
    if body:
        yield Quotation(start, end, body, citation, near=citation is not None, block=True)


def _words_left(text: str) -> bool:
    return bool(re.search(r"\w", text))


def _unwrapped(body: str) -> str:
    """A block quote without quotation marks around the whole of it."""
    if len(body) > 2 and body[0] in _CLOSING and body[-1] in _CLOSING[body[0]] and body.count(body[0]) <= 2:
        return body[1:-1].strip()
    return body


def _inline(text: str, start: int, end: int, citations: list[Citation], faults: list[str]) -> Iterator[Quotation]:
    at = start
    spans = {one.start: one.end for one in citations}
    while at < end:
        if at in spans:
            at = spans[at]
            continue
        sign = text[at]
        if sign not in _CLOSING or not _opens(text, at, start):
            at += 1
            continue
        closing = _closing(text, at, end)
        single = sign in "‘'"
        if closing is None:
            if not single:
                faults.append(f"a quotation opens with {sign} and does not close in its paragraph: {_excerpt(text[at:end])}")
            at += 1
            continue
        words = text[at + 1:closing]
        if single and count_words(words) <= SHORT_WORDS:
            at += 1
            continue
        citation = next((one for one in citations if one.start > closing), None)
        near = citation is not None and _SENTENCE_END.search(text, closing - 1, citation.start) is None
        if words.strip():
            yield Quotation(at + 1, closing, words, citation, near)
        at = closing + 1


def _opens(text: str, at: int, start: int) -> bool:
    """Whether a sign that may open a quotation does: not an apostrophe, not an inch."""
    sign, before = text[at], text[at - 1] if at > start else " "
    after = text[at + 1:at + 2]
    if sign in "‘'":
        return not before.isalnum() and bool(after) and not after.isspace() and not after.isdigit() and before not in "’'"
    if sign == "\"":
        return not before.isdigit()
    return not before.isalnum()


def _closing(text: str, at: int, end: int) -> int | None:
    """Where the quotation that opens at `at` closes."""
    sign = text[at]
    for closers in (_CLOSING[sign], _INSTEAD.get(sign, "")):
        depth = 0
        for place in range(at + 1, end):
            met = text[place]
            if met in _NESTED.get(sign, sign) and met not in closers:
                depth += 1
            elif met in closers and (sign not in "‘'" or _ends_single(text, place, end)):
                if not depth:
                    return place
                depth -= 1
    return None


def _ends_single(text: str, place: int, end: int) -> bool:
    after = text[place + 1] if place + 1 < end else " "
    return not after.isalnum() and not text[place - 1].isspace()


def _excerpt(text: str) -> str:
    found = " ".join(text.split())
    return found if len(found) <= 80 else found[:80].rsplit(" ", 1)[0] + " …"
