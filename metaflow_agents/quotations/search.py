"""Finds quoted words in a source's one form: exactly, or the nearest passage to words that are not there."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from metaflow_agents.quotations.normal import DASH, EITHER_CASE, HYPHEN, Normal, normal_text

MAX_GAP = 2000
"""Characters that one `[…]` may leave out."""
_ELISION = re.compile(r"[\[(]\s*(?:…|\.\s?\.\s?\.)\s*[\])]")
_CHANGED_CASE = re.compile(r"(?<!\w)\[(\w)\](?=\w)")
_WORD = re.compile(r"\w+")
_LIKE = 0.45                                # below it, two passages have no more in common than any two of their language


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a source's one form."""

    start: int
    end: int


def parts_of(quotation: str) -> list[str]:
    """The stretches between elisions, each in the one form. A letter in brackets at the start of a word may be of either case."""
    marked = _CHANGED_CASE.sub(EITHER_CASE + r"\1", quotation.replace(EITHER_CASE, ""))
    return [part for part in map(normal_text, _ELISION.split(marked)) if _WORD.search(part)]


def find(parts: list[str], source: Normal, *, loose_spaces: bool = False) -> Place | None:
    """Where the parts stand in the source, word for word, in their order, not more than `MAX_GAP` apart.

    `loose_spaces`: white space does not count. A PDF holds letters and their places; which gaps are spaces is its reader's guess.
    """
    reached: list[Place] = []
    for number, part in enumerate(parts):
        found = _occurrences(_pattern(part, last=number == len(parts) - 1, loose=loose_spaces), source.text)
        if number == 0:
            reached = list(found)
        else:
            reached = [Place(before.start, place.end) for place in found
                       if (before := _reaching(reached, place)) is not None]
        if not reached:
            return None
    return reached[0] if reached else None


def _reaching(before: list[Place], place: Place) -> Place | None:
    return next((one for one in before if 0 <= place.start - one.end <= MAX_GAP), None)


def _occurrences(pattern: re.Pattern[str], text: str) -> Iterator[Place]:
    at = 0
    while (found := pattern.search(text, at)) is not None:
        if _whole(text, found.start(), found.end()):
            yield Place(found.start(), found.end())
        at = found.start() + 1


def _whole(text: str, start: int, end: int) -> bool:
    """Whether a stretch neither begins nor ends inside a word or a number, nor drops the sign or the prefix of one."""
    first, last = text[start], text[end - 1]
    before, after = text[start - 1:start], text[end:end + 1]
    if first.isalnum() and (before.isalnum() or before == HYPHEN or (before == "-" and text[start - 2:start - 1].isalnum())):
        return False
    if first.isdigit() and (before and before in ".,-" and (before == "-" or text[start - 2:start - 1].isdigit())):
        return False
    if last.isalnum() and (after.isalnum() or after == HYPHEN):
        return False
    return not (last.isdigit() and after and after in ".," and text[end + 1:end + 2].isdigit())


def _pattern(part: str, *, last: bool, loose: bool) -> re.Pattern[str]:
    """The one form of a quotation as a pattern over the one form of a source, with the readings that its marks leave open."""
    part = part.removeprefix("...").strip()
    tail = ""
    if last:                                    # a comma or full stop inside the marks may belong to the report's own sentence
        body = re.sub(r"(?:\.\.\.|[.,])$", "", part)
        tail = f"(?:{re.escape(part[len(body):])})?" if body != part else ""
        part = body
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
    return re.compile("".join(found) + tail)


def nearest(quotation: Iterable[str], source: Normal) -> tuple[Place, float] | None:
    """The passage of the source most like the words, and how like it is (0 to 1); None where nothing is like them."""
    wanted = [word.lower() for part in quotation for word in _WORD.findall(part)]
    spans = [(found.start(), found.end()) for found in _WORD.finditer(source.text)]
    words = [source.text[start:end].lower() for start, end in spans]
    where: dict[str, list[int]] = defaultdict(list)
    needed = set(wanted)
    for place, word in enumerate(words):
        if word in needed:
            where[word].append(place)
    step = max(1, len(wanted) // 2)
    votes: Counter[int] = Counter()
    for offset, word in enumerate(wanted):
        for place in where.get(word, ()):
            votes[(place - offset) // step] += 1000 // len(where[word]) + 1
    best: tuple[Place, float] | None = None
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
            best = Place(spans[first][0], spans[min(end, len(spans)) - 1][1]), share
    return best if best is not None and best[1] >= _LIKE else None
