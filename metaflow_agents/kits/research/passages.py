"""Chooses what a writer reads of long documents: the passages that speak of a section's question.

Paragraphs are ranked by Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009)
over words cut to their first letters, which does for endings in many languages what a stemmer does in one. No index is kept:
three hundred pages are ranked in about a second.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from metaflow_agents.documents.folder import SHORT
from metaflow_agents.kits.research.values import Passage, Section
from metaflow_agents.schema.source import Source
from metaflow_agents.schema.unicode_form import normalized

MAX_CHARACTERS = 80_000
"""Of all passages that one section is given: some thirty pages, or 20,000 tokens."""
_PARAGRAPH = 900                        # characters after which a paragraph is cut, at the end of a sentence where there is one
_LEAST = 200                            # a heading or a short line goes with what follows it
_STEM = 6
_K1, _B = 1.2, 0.75
_NEIGHBOUR = 0.3                        # of a passage's rank that those beside it have too: an answer seldom fits one paragraph
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\\w+")
_SENTENCE_END = re.compile(r"[.!?。][\"'”’)\]]*\s+|\n")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A paragraph: the source's place among the sources, its own place in the source."""

    source: Source
    shelf: int
    place: int
    page: int | None
    text: str
    broken: bool
    """Whether it goes on in the next piece: a paragraph that was cut."""


def choose(section: Section, sources: Sequence[Source], most: int = MAX_CHARACTERS) -> list[Passage]:
    """What a section's author is given of its sources (of all, where it names none), in the order of the documents.

    All of them where they fit into `most` characters. Else the short ones whole, as far as half of that goes, and of the others
    the passages that rank highest, among them the best of every source and the best for each of the section's terms.
    """
    named = [source for source in sources if source.id in section.sources] or list(sources)
    every = [piece for shelf, source in enumerate(named) for piece in _pieces(source, shelf)]
    chosen = every if sum(len(piece.text) for piece in every) <= most else _best(every, section, most)
    count, kept = (Counter(piece.shelf for piece in pieces) for pieces in (every, chosen))
    return _merged(chosen, {shelf for shelf in kept if kept[shelf] == count[shelf]})


def _query(section: Section) -> list[str]:
    return _stems(" ".join((section.heading, section.question, *section.points, *section.terms)))


def _stems(text: str) -> list[str]:
    plain = "".join(letter for letter in normalized("NFKD", text.lower()) if not unicodedata.combining(letter))
    return [word[:_STEM] for word in _WORD.findall(plain)]


def _best(pieces: list[_Piece], section: Section, most: int) -> list[_Piece]:
    counted = [Counter(_stems(piece.text)) for piece in pieces]
    ranks = _ranks(pieces, counted, _query(section))
    order = sorted(range(len(pieces)), key=lambda number: -ranks[number])      # stable: equals in the order of the documents
    firsts: dict[int, int] = {}
    for number in order:
        firsts.setdefault(pieces[number].shelf, number)
    first = [*sorted(firsts.values(), key=lambda one: -ranks[one]), *_best_of_terms(pieces, counted, section.terms)]
    chosen: set[int] = set()
    room = most
    for number in dict.fromkeys((*_short(pieces, most // 2), *first, *order)):
        if len(pieces[number].text) <= room:
            chosen.add(number)
            room -= len(pieces[number].text)
    return [pieces[number] for number in sorted(chosen)]


def _short(pieces: list[_Piece], room: int) -> Iterator[int]:
    """The pieces of the short sources, the shortest first, as far as there is room: what is cut away can't be cited."""
    sizes = Counter[int]()
    for piece in pieces:
        sizes[piece.shelf] += len(piece.text)
    for shelf, size in sorted(sizes.items(), key=lambda one: one[1]):
        if size <= min(SHORT, room):
            room -= size
            yield from (number for number, piece in enumerate(pieces) if piece.shelf == shelf)


def _best_of_terms(pieces: list[_Piece], counted: Sequence[Mapping[str, int]], terms: Sequence[str]) -> Iterator[int]:
    """The piece that ranks highest for each term alone: one that the others drown would have no passage."""
    for term in terms:
        ranks = _ranks(pieces, counted, _stems(term))
        best = max(range(len(pieces)), key=lambda number: ranks[number])
        if ranks[best] > 0:
            yield best


def _ranks(pieces: list[_Piece], counted: Sequence[Mapping[str, int]], query: list[str]) -> list[float]:
    """BM25 of each piece, and a share of that of the pieces beside it. `counted`: the stems of each."""
    lengths = [sum(counts.values()) for counts in counted]
    usual = sum(lengths) / len(lengths)
    wanted = Counter(query)
    weights = {}
    for stem, times in wanted.items():
        holding = sum(stem in counts for counts in counted)
        weights[stem] = math.log(1 + (len(pieces) - holding + 0.5) / (holding + 0.5)) * (1 + math.log(times))
    own = [sum(weights[stem] * counts[stem] * (_K1 + 1) / (counts[stem] + _K1 * (1 - _B + _B * length / usual))
               for stem in wanted if stem in counts)
           for counts, length in zip(counted, lengths, strict=True)]
    ranks = []
    for number, piece in enumerate(pieces):
        beside = sum(own[near] for near in (number - 1, number + 1)
                     if 0 <= near < len(pieces) and pieces[near].shelf == piece.shelf)
        ranks.append(own[number] + _NEIGHBOUR * beside)
    return ranks


def _pieces(source: Source, shelf: int) -> Iterable[_Piece]:
    place = 0
    for page in source.pages:
        for text, broken in _paragraphs(page.text):
            yield _Piece(source, shelf, place, page.number, text, broken)
            place += 1


def _paragraphs(text: str) -> Iterable[tuple[str, bool]]:
    """A page's text in paragraphs of a readable size, each with whether it goes on in the next; only white space is lost."""
    waiting = ""
    for paragraph in re.split(r"\n\s*\n", text):
        waiting = f"{waiting}\n\n{paragraph.strip()}" if waiting else paragraph.strip()
        while len(waiting) > 2 * _PARAGRAPH:
            cut = max((found.end() for found in _SENTENCE_END.finditer(waiting, _LEAST, 2 * _PARAGRAPH)
                       if found.end() <= _PARAGRAPH), default=0) or waiting.rfind(" ", _LEAST, _PARAGRAPH) + 1 or _PARAGRAPH
            yield waiting[:cut].rstrip(), True
            waiting = waiting[cut:].lstrip()
        if len(waiting) >= _LEAST:
            yield waiting, False
            waiting = ""
    if waiting:
        yield waiting, False


def _merged(pieces: list[_Piece], whole: Collection[int]) -> list[Passage]:
    """Neighbours on one page become one passage again. `whole`: the sources, by place, that are all there."""
    found: list[Passage] = []
    before: _Piece | None = None
    for piece in pieces:
        if before is not None and (before.shelf, before.place + 1, before.page) == (piece.shelf, piece.place, piece.page):
            last = found.pop()
            joint = "\n" if before.broken else "\n\n"
            found.append(last.model_copy(update={"text": f"{last.text}{joint}{piece.text}"}))
        else:
            found.append(Passage(source=piece.source.id, page=piece.page, text=piece.text, whole=piece.shelf in whole))
        before = piece
    return found
