"""Holds every quotation of a report against the source that it names, and says what is wrong so that its author can mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from metaflow_agents.errors import did_you_mean
from metaflow_agents.kits.research.quotations.marks import Citation, Marks, Quotation, Target, count_words, find_marks
from metaflow_agents.kits.research.quotations.normal import Normal, normal
from metaflow_agents.kits.research.quotations.search import QuotationPlace, find, nearest, parts_of
from metaflow_agents.schema.source import Source, SourcePage

MAX_ELISIONS = 4
MAX_NEAREST = 20
"""False quotations that are told with the passage most like them: looking for it reads the whole source again."""
MAX_QUOTATIONS = 1_000
"""Quotations of a text that are looked for, which takes a fifth of a second. A report has some dozens."""
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class FoundQuotation:
    """A quotation that stands in its source, and on which pages (None where the source has none)."""

    section: str
    text: str
    source: str
    first_page: int | None
    last_page: int | None


@dataclass(frozen=True, slots=True)
class QuotationVerdict:
    """What was found true, and everything that is wrong, each told whole."""

    found: tuple[FoundQuotation, ...]
    citations: int
    cited: frozenset[str]
    faults: tuple[str, ...]


def verify(sections: Mapping[str, str], sources: Sequence[Source]) -> QuotationVerdict:
    """Checks the quotations and citations of Markdown texts (name → text) against the sources.

    A fault names the section, the quotation, the source, and the nearest passage of that source with its page; where the words
    stand in another source, that one. A page that a citation names must be one on which the words stand. Quotations of more than
    three words need a citation behind them.
    """
    shelf = _Shelf(sources)
    found: list[FoundQuotation] = []
    faults: list[str] = []
    citations: list[Citation] = []
    for section, text in sections.items():
        marks = find_marks(text)
        citations += marks.citations
        told = f"section `{section}`: " if section else ""
        faults += [told + fault for fault in _of_citations(marks, shelf)]
        counted = [quotation for quotation in marks.quotations if quotation.counts]
        if len(counted) > MAX_QUOTATIONS:
            faults.append(f"{told}it has {len(counted):,} quotations, and at most {MAX_QUOTATIONS:,} are looked for: quote less")
        for quotation in counted[:MAX_QUOTATIONS]:
            result = _of_quotation(quotation, section, shelf)
            if isinstance(result, str):
                faults.append(told + result)
            elif result is not None:
                found.append(result)
    cited = frozenset(target.source for citation in citations for target in citation.targets)
    return QuotationVerdict(tuple(found), len(citations), cited, tuple(dict.fromkeys(faults)))


class _Shelf:
    """The sources by their ids, each in its one form when it is first asked for."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = {source.id: source for source in sources}
        self._looked = 0

    def nearest(self, name: str, parts: list[str]) -> tuple[QuotationPlace, float] | None:
        """See `nearest`; None once it was asked too often."""
        self._looked += 1
        return nearest(parts, self.text(name)) if self._looked <= MAX_NEAREST else None

    def text(self, name: str) -> Normal:
        return _normal(self.sources[name].pages)

    def find(self, name: str, parts: list[str]) -> QuotationPlace | None:
        return find(parts, self.text(name), loose_spaces=self.sources[name].kind == "pdf")

    def pages(self, name: str, place: QuotationPlace) -> tuple[int | None, int | None]:
        text = self.text(name)
        return text.page_at(place.start), text.page_at(place.end - 1)

    def named(self, name: str) -> str:
        """`S2 (report.pdf)`."""
        return f"{name} ({self.sources[name].path})"

    def passage(self, name: str, place: QuotationPlace) -> str:
        """The lines of the source around a place, as they stand there, and their page: ` (p. 3): "…"`."""
        text = self.text(name)
        lines = [line for _, line in text.lines[text.line_at(place.start):text.line_at(place.end - 1) + 1]]
        shown = " ".join(" ".join(lines).split())
        if len(shown) > _SHOWN:                 # long lines: a paragraph each
            shown = f"… {text.text[max(0, place.start - 40):place.end + 40].translate(_PLAIN).strip()} …"
        page = text.page_at(place.start)
        return f"{f' on p. {page}' if page is not None else ''}: <<{shown}>>"


_PLAIN = {0xE000: "-", 0xE001: " – ", 0xE002: None, **{0xE010 + digit: sign for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}}


@lru_cache(maxsize=128)
def _normal(pages: tuple[SourcePage, ...]) -> Normal:
    """Kept: the sections of a report are checked one by one, against the same sources."""
    return normal((page.number, page.text) for page in pages)


def _of_citations(marks: Marks, shelf: _Shelf) -> Iterator[str]:
    yield from marks.faults
    for citation in marks.citations:
        for target in citation.targets:
            source = shelf.sources.get(target.source)
            if source is None:
                yield f"{citation.text} names no source: {did_you_mean(target.source, shelf.sources)}"
                continue
            last = source.pages[-1].number
            if target.pages and last is None:
                yield f"{citation.text} names a page, and {shelf.named(target.source)} has no pages: write [{target.source}]"
            elif last is not None and any(not 1 <= first <= end <= last for first, end in target.pages):
                yield f"{citation.text} names a page that {shelf.named(target.source)} does not have: it has {last}"


def _of_quotation(quotation: Quotation, section: str, shelf: _Shelf) -> FoundQuotation | str | None:
    """Where a quotation stands; else what is wrong; None where another fault says so already."""
    shown = f"the quotation \"{_short(quotation.text)}\""
    citation = quotation.citation
    if citation is None:
        return (f"{shown} has no citation behind it in its paragraph: name its source, like \"exact words\" [S2], "
                "or say it in your own words, without quotation marks")
    known = [target for target in citation.targets if target.source in shelf.sources]
    if not known:
        return None
    parts = parts_of(quotation.text)
    if len(parts) > MAX_ELISIONS + 1 or (len(parts) > 1 and any(count_words(part) < 2 for part in parts)):
        return (f"{shown} is patched together: at most {MAX_ELISIONS} times [...], with two words or more on each side; "
                "quote one passage, or say it in your own words")
    elsewhere: str | None = None
    for target in known:
        place = shelf.find(target.source, parts)
        if place is None:
            continue
        first, last = shelf.pages(target.source, place)
        pages = (first, last) if _on_page(target, first, last) else _on_named_page(target, parts, shelf)
        if pages is not None:
            return FoundQuotation(section, quotation.text, target.source, *pages)
        elsewhere = (f"{shown} stands in {shelf.named(target.source)} on p. {first}, not on the page that {citation.text} names: "
                     f"write [{target.source}, p. {first}]")
    return elsewhere or _not_there(shown, citation, known, parts, quotation, shelf)


def _on_page(target: Target, first: int | None, last: int | None) -> bool:
    return not target.pages or first is None or last is None or any(low <= last and first <= high for low, high in target.pages)


def _on_named_page(target: Target, parts: list[str], shelf: _Shelf) -> tuple[int, int] | None:
    """The page among those that the citation names where the words stand once more: they may stand in a source twice."""
    source = shelf.sources[target.source]
    for low, high in target.pages:
        pages = tuple(page for page in source.pages if page.number is not None and low <= page.number <= high)
        if pages and (place := find(parts, _normal(pages), loose_spaces=True)) is not None:
            text = _normal(pages)
            return text.page_at(place.start) or low, text.page_at(place.end - 1) or high
    return None


def _not_there(shown: str, citation: Citation, known: list[Target], parts: list[str], quotation: Quotation, shelf: _Shelf) -> str:
    """What an author needs to mend a false quotation."""
    asked = [target.source for target in known]
    false = f"{shown} {citation.text} does not stand, word for word, in {' or '.join(map(shelf.named, asked))}"
    other = next((name for name in shelf.sources if name not in asked and shelf.find(name, parts) is not None), None)
    if other is not None:
        place = shelf.find(other, parts)
        page = shelf.pages(other, place)[0] if place is not None else None
        return f"{false}; it stands in {shelf.named(other)}: write [{other}{f', p. {page}' if page is not None else ''}]"
    near = max(((name, *near) for name in asked if (near := shelf.nearest(name, parts)) is not None),
               key=lambda one: one[2], default=None)
    mend = "quote exactly what stands there, or say it in your own words, without quotation marks"
    if "[" in quotation.text:
        mend += ("; inside a quotation nothing may stand in brackets but a letter of other case, as in [t]he, "
                 "and [...] for words left out")
    if near is None:
        return f"{false}, nor anything like it: {mend}"
    return f"{false}. The nearest passage there{shelf.passage(near[0], near[1])}. Mend: {mend}"


def _short(text: str) -> str:
    found = " ".join(text.split())
    return found if len(found) <= 300 else f"{found[:200].rsplit(' ', 1)[0]} … {found[-80:].split(' ', 1)[-1]}"
