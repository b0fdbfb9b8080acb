"""Finds the quotations and citations in a Markdown text.

The form, as a model finds it natural: `"exact words" [S2, p. 4]`, a plain `[S2]` or `[S1; S3, pp. 2–3]` behind what is said in
own words, and block quotes (`> …`) that end in a citation or are followed by one. A quotation belongs to the first citation
behind it in its paragraph. All kinds of double quotation marks count, and single ones around four words and more.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SHORT_WORDS = 3
"""Up to so many words in quotation marks are a term, not a quotation, unless a citation stands behind them in their sentence."""

CITATION = re.compile(r"\[(S\d[^\[\]\n]{0,200})\]")
_TARGET = re.compile(r"S(\d{1,5})\s*+(?:[,:]?\s*+(?:pp?\.?|pages?)?\s*+(\d[\d\s,–—-]*?))?\s*+(?:[;&]|,(?=\s*S\d)|\band\b|$)\s*")
_RANGE = re.compile(r"\s*(\d{1,6})(?:\s*[–—-]+\s*(\d{1,6}))?\s*")
_ODD_CITATION = re.compile(r"\((S\d{1,5}(?:,\s*pp?\.\s*[\d–-]+)?)\)|\[(s\d{1,5}[^\[\]\n]{0,40})\]")
_EXCERPT = 400                      # characters of a paragraph that an excerpt of it is made of
# Opening sign → the signs that close it, the usual ones; then those that stand in for them; then what opens another inside.
_CLOSING = {"“": "”", "„": "“”", "«": "»", "»": "«", "\"": "\"”", "「": "」", "『": "』", "‘": "’'", "'": "'’"}
_INSTEAD = {"“": "\"", "„": "\"‟"}
_NESTED = {"\"": "“", "‘": "", "'": ""}
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+|\s*#{1,6}\s|\s*\|")
_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
_TICKS = re.compile(r"`+|\n")
_LINK_TITLE = re.compile(r"(?<=\]\()[^()\n]*(?=\))")
_SENTENCE_END = re.compile(r"[.!?。][*_)\]’”'\"]*\s+(?=[^\W\d_a-z]|[“\"„«])|[。！？]")
_BETWEEN = " \t\n\r\f\v(—–-"
_ATTRIBUTION = re.compile(r"\n[^\S\n]*+[-–—]{1,3}\s*+[^\n]*+$")
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
    starts = [one.start for one in citations]
    for start, end, block in _blocks(masked):
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        if block:
            quotations += _block_quote(masked, start, end, citations[first:last], next(iter(citations[last:last + 1]), None))
        else:
            quotations += _Paragraph(masked, start, end, citations[first:last]).quotations(faults)
    return Marks(tuple(quotations), tuple(citations), tuple(faults))


def _masked(text: str) -> str:
    """The text with code and the targets of links blanked: what stands there is no prose. Places stay the same."""
    for pattern in (_FENCE, None, _LINK_TITLE):
        text = _without_code(text) if pattern is None else pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _without_code(text: str) -> str:
    """Code spans blanked: from a run of backticks to the next of the same length on its line (CommonMark 0.31, section 6.1)."""
    runs = [(found.start(), found.end(), found[0] == "\n") for found in _TICKS.finditer(text)]
    closing: list[int | None] = [None] * len(runs)
    following: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        start, end, line_end = runs[number]
        if line_end:
            following.clear()
        else:
            closing[number] = following.get(end - start)
            following[end - start] = number
    parts: list[str] = []
    at = number = 0
    while number < len(runs):
        other = closing[number]
        if other is not None:
            parts += text[at:runs[number][0]], " " * (runs[other][1] - runs[number][0])
            at, number = runs[other][1], other
        number += 1
    return "".join([*parts, text[at:]])


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


def _block_quote(text: str, start: int, end: int, inner: Sequence[Citation], following: Citation | None) -> Iterator[Quotation]:
    """A block quote: its words are those before the citation that ends it, or all where the citation follows it."""
    citation = inner[-1] if inner and not _words_left(text[inner[-1].end:end]) else None
    if citation is not None:
        body = text[start:citation.start]
    else:
        body = text[start:end]
        if following is not None and not text[end:following.start].strip(_BETWEEN):
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


class _Paragraph:
    """One paragraph, read from left to right. What closes what is worked out once for each kind of sign: to look for the end of
    every quotation that is never closed would be to read the whole paragraph for each.
    """

    def __init__(self, text: str, start: int, end: int, citations: Sequence[Citation]) -> None:
        self._text, self._start, self._end, self._citations = text, start, end, citations
        self._cited = [one.start for one in citations]
        self._ends = [found.start() for found in _SENTENCE_END.finditer(text, start, end)]
        self._words = [found.start() for found in _WORD.finditer(text, start, end)]
        self._closings: dict[tuple[str, str], dict[int, int]] = {}

    def quotations(self, faults: list[str]) -> Iterator[Quotation]:
        """Those in quotation marks; what opens and does not close is added to the faults."""
        text, at = self._text, self._start
        spans = {one.start: one.end for one in self._citations}
        while at < self._end:
            if at in spans:
                at = spans[at]
                continue
            sign = text[at]
            if sign not in _CLOSING or not _opens(text, at, self._start):
                at += 1
                continue
            closing = self._closing(at)
            single = sign in "‘'"
            if closing is None:
                if not single:
                    faults.append(f"a quotation opens with {sign} and does not close in its paragraph: "
                                  f"{_excerpt(text[at:min(self._end, at + _EXCERPT)])}")
                at += 1
                continue
            if single and bisect_left(self._words, closing) - bisect_left(self._words, at + 1) <= SHORT_WORDS:
                at += 1
                continue
            words = text[at + 1:closing]
            if words.strip():
                citation, near = self._citation(closing)
                yield Quotation(at + 1, closing, words, citation, near)
            at = closing + 1

    def _citation(self, closing: int) -> tuple[Citation | None, bool]:
        """The first citation behind a quotation, and whether it stands in the same sentence."""
        following = bisect_left(self._cited, closing + 1)
        if following == len(self._cited):
            return None, False
        ended = bisect_left(self._ends, closing - 1)
        near = ended == len(self._ends) or self._ends[ended] >= self._cited[following]
        return self._citations[following], near

    def _closing(self, at: int) -> int | None:
        """Where the quotation that opens at `at` closes."""
        sign = self._text[at]
        for closers in filter(None, (_CLOSING[sign], _INSTEAD.get(sign))):
            if (sign, closers) not in self._closings:
                self._closings[sign, closers] = self._paired(sign, closers)
            found = self._closings[sign, closers].get(at)
            if found is not None:
                return found
        return None

    def _paired(self, sign: str, closers: str) -> dict[int, int]:
        """Place of each such sign → where it closes: the first place behind it where one more has closed than opened."""
        openers = set(_NESTED.get(sign, sign)) - set(closers)
        depth, places, depths = 0, [], []
        for place in range(self._start, self._end):
            met = self._text[place]
            step = 0
            if met in openers:
                step = 1
            elif met in closers and (sign not in "‘'" or _ends_single(self._text, place, self._end)):
                step = -1
            if step or met == sign:
                depth += step
                places.append((place, met, step))
                depths.append(depth)
        found: dict[int, int] = {}
        nearest: dict[int, int] = {}
        for (place, met, step), here in zip(reversed(places), reversed(depths), strict=True):
            if met == sign and here - 1 in nearest:
                found[place] = nearest[here - 1]
            if step < 0:
                nearest[here] = place
        return found


def _opens(text: str, at: int, start: int) -> bool:
    """Whether a sign that may open a quotation does: not an apostrophe, not an inch."""
    sign, before = text[at], text[at - 1] if at > start else " "
    after = text[at + 1:at + 2]
    if sign in "‘'":
        return not before.isalnum() and bool(after) and not after.isspace() and not after.isdigit() and before not in "’'"
    if sign == "\"":
        return not before.isdigit()
    return not before.isalnum()


def _ends_single(text: str, place: int, end: int) -> bool:
    after = text[place + 1] if place + 1 < end else " "
    return not after.isalnum() and not text[place - 1].isspace()


def _excerpt(text: str) -> str:
    found = " ".join(text.split())
    return found if len(found) <= 80 else found[:80].rsplit(" ", 1)[0] + " …"
