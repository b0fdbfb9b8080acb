"""Finds quoted words in a source's one form: exactly, or the nearest passage to words that are not there."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

from metaflow_agents.kits.research.quotations.normal import DASH, EITHER_CASE, GAPS, HYPHEN, Normal, normal_text

MAX_GAP = 2000
"""Characters that one `[…]` may leave out."""
MAX_OCCURRENCES = 1000
"""Of one part of an elided quotation that are looked at."""
MAX_CANDIDATES = 20_000
"""Places with the right letters at which one part is tried."""
_COMPARED = 120                             # words of a false quotation that are compared with what is near it
_ELISION = re.compile(r"[\[(]\s*(?:…|\.\s?\.\s?\.)\s*[\])]")
_CHANGED_CASE = re.compile(r"(?<!\w)\[(\w)\](?=\w)")
_WORD = re.compile(r"\w+")
_VOTES = 300                                # places of one word that count: a rare word says more than a common one
_LIKE = 0.45                                # below it, two passages have no more in common than any two of their language


@dataclass(frozen=True, slots=True)
class QuotationPlace:
    """A stretch of a source's one form."""

    start: int
    end: int


def parts_of(quotation: str) -> list[str]:
    """The stretches between elisions, each in the one form. A letter in brackets at the start of a word may be of either case."""
    marked = _CHANGED_CASE.sub(EITHER_CASE + r"\1", quotation.replace(EITHER_CASE, ""))
    return [part for part in map(normal_text, _ELISION.split(marked)) if _WORD.search(part)]


def find(parts: list[str], source: Normal, *, loose_spaces: bool = False) -> QuotationPlace | None:
    """Where the parts stand in the source, word for word, in their order, not more than `MAX_GAP` apart.

    `loose_spaces`: white space does not count. A PDF holds letters and their places; which gaps are spaces is its reader's guess.
    """
    reached: list[QuotationPlace] = []
    for number, part in enumerate(parts):
        found = _occurrences(part, source, last=number == len(parts) - 1, loose=loose_spaces)
        if number == 0:
            reached = list(islice(found, 1 if len(parts) == 1 else MAX_OCCURRENCES))
        else:
            reached = [QuotationPlace(before.start, place.end) for place in islice(found, MAX_OCCURRENCES)
                       if (before := _reaching(reached, place)) is not None]
        if not reached:
            return None
    return reached[0] if reached else None


def _reaching(before: list[QuotationPlace], place: QuotationPlace) -> QuotationPlace | None:
    return next((one for one in before if 0 <= place.start - one.end <= MAX_GAP), None)


def _occurrences(part: str, source: Normal, *, last: bool, loose: bool) -> Iterator[QuotationPlace]:
    """Where a part stands. Candidates come from a search for its bare letters, which takes time in proportion to the source,
    whatever stands in it; only there the pattern is tried.
    """
    body, tail = _split_tail(part.removeprefix("...").strip(), last)
    letters, offset = _key(body)
    if not letters:
        return
    at = source.bare.find(letters)
    if at < 0:
        return                                          # a long part's pattern takes its time to be made
    pattern = _pattern(body, tail, loose=loose)
    for _ in range(MAX_CANDIDATES):
        if at < 0:
            return
        start = source.place_of(at - offset) if at >= offset else None
        if start is not None and _begins_whole(source.text, start):
            found = pattern.match(source.text, start)
            if found is not None and _ends_whole(source.text, found.end()):
                yield QuotationPlace(start, found.end())
        at = source.bare.find(letters, at + 1)


def _key(body: str) -> tuple[str, int]:
    """The longest stretch of a part's bare letters that is sure, and how many bare letters stand before it."""
    best, offset, before = "", 0, 0
    for number, stretch in enumerate(body.split(EITHER_CASE)):
        sure = GAPS.sub("", stretch[1:] if number else stretch)
        before += bool(number)                          # the letter of either case
        if len(sure) > len(best):
            best, offset = sure, before
        before += len(sure)
    return best, offset


def _split_tail(part: str, last: bool) -> tuple[str, str]:
    """A part, and what may be missing at its end: a comma or full stop inside the marks may belong to the report's sentence."""
    body = re.sub(r"(?:\.\.\.|[.,])$", "", part) if last else part
    return body, part[len(body):]


def _begins_whole(text: str, start: int) -> bool:
    """Whether a stretch begins neither inside a word or a number, nor behind the sign or the prefix of one."""
    first, before, earlier = text[start], text[start - 1:start], text[start - 2:start - 1]
    if first.isalnum() and (before.isalnum() or before == HYPHEN or (before == "-" and earlier.isalnum())):
        return False
    return not (first.isdigit() and (before == "-" or (before in (".", ",") and earlier.isdigit())))


def _ends_whole(text: str, end: int) -> bool:
    """Whether a stretch ends neither inside a word nor inside a number."""
    last, after = text[end - 1], text[end:end + 1]
    if last.isalnum() and (after.isalnum() or after == HYPHEN):
        return False
    return not (last.isdigit() and after in (".", ",") and text[end + 1:end + 2].isdigit())


def _pattern(part: str, tail: str, *, loose: bool) -> re.Pattern[str]:
    """The one form of a quotation as a pattern over the one form of a source, with the readings that its marks leave open."""
    between = f"[ {HYPHEN}]?" if loose else f"{HYPHEN}?"
    found: list[str] = []
    for number, sign in enumerate(part):
        before = part[number - 1:number]
        if before == EITHER_CASE:
            found.append(f"[{re.escape(sign.lower()[0])}{re.escape(sign.upper()[0])}]")
        elif sign == " ":
            found.append(f"[ {DASH}]{'?' if loose or before == '-' else ''}")
        elif sign in "-–" + DASH:
            # `post- war` at a line's end reads as `post-war`, `postwar` or `post- and` …: the hyphen's own reading comes first
            found.append(f"[–{DASH}{HYPHEN}-]" + (" ?" if loose else ""))
        elif sign == HYPHEN:
            found.append(f"[{HYPHEN}-]?")
        elif sign != EITHER_CASE:
            found.append((between if (before.isalpha() and sign.isalpha()) or (loose and number) else "") + re.escape(sign))
    return re.compile("".join(found) + (f"(?:{re.escape(tail)})?" if tail else ""))


def nearest(quotation: Iterable[str], source: Normal) -> tuple[QuotationPlace, float] | None:
    """The passage of the source most like the words, and how like it is (0 to 1); None where nothing is like them."""
    wanted = [word.lower() for part in quotation for word in _WORD.findall(part)][:_COMPARED]
    spans = [(found.start(), found.end()) for found in _WORD.finditer(source.text)]
    words = [source.text[start:end].lower() for start, end in spans]
    where: dict[str, list[int]] = defaultdict(list)
    needed = set(wanted)
    for place, word in enumerate(words):
        if word in needed and len(where[word]) < _VOTES:
            where[word].append(place)
    step = max(1, len(wanted) // 2)
    votes: Counter[int] = Counter()
    for offset, word in enumerate(wanted):
        for place in where.get(word, ()):
            votes[(place - offset) // step] += 1000 // len(where[word]) + 1
    best: tuple[QuotationPlace, float] | None = None
    for bucket, _ in votes.most_common(5):
        low = max(0, bucket * step - step)
        window = words[low:bucket * step + len(wanted) + 2 * step]
        matcher = SequenceMatcher(None, wanted, window, autojunk=False)
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        if not blocks:
            continue
        share = 2 * sum(block.size for block in blocks) / (len(wanted) + blocks[-1].b + blocks[-1].size - blocks[0].b)
        # as many words around what is equal as the quotation has there
        first = max(low, low + blocks[0].b - blocks[0].a)
        end = low + blocks[-1].b + blocks[-1].size + len(wanted) - blocks[-1].a - blocks[-1].size
        if best is None or share > best[1]:
            best = QuotationPlace(spans[first][0], spans[min(end, len(spans)) - 1][1]), share
    return best if best is not None and best[1] >= _LIKE else None
