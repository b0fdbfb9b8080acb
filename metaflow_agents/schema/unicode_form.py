"""Unicode's normal forms in linear time: Python sorts a run of combining marks by insertion, and 100,000 of them take minutes."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal

LONGEST_RUN = 30
"""Non-starters in a row, after which `JOINER` stands: the Stream-Safe Text Format (UAX #15, section 13)."""
JOINER = "\u034f"


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """The text in a normal form; a text with endless runs of marks gets joiners into them."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, _stream_safe(text) if any(_marks(letter)[0] for letter in set(text)) else text)


def _stream_safe(text: str) -> str:
    """Counted as they stand when they are decomposed, as the specification says: a letter may come apart into several marks."""
    found: list[str] = []
    run = 0
    for letter in text:
        first, last, all_are = _marks(letter)
        if run + first > LONGEST_RUN:
            found.append(JOINER)
            run = 0
        run = run + first if all_are else last
        found.append(letter)
    return "".join(found)


@lru_cache(maxsize=4096)
def _marks(letter: str) -> tuple[int, int, bool]:
    """With how many non-starters its decomposition begins, with how many it ends, and whether it has nothing else."""
    apart = [unicodedata.combining(part) > 0 for part in unicodedata.normalize("NFKD", letter)]
    first = next((place for place, is_mark in enumerate(apart) if not is_mark), len(apart))
    last = next((place for place, is_mark in enumerate(reversed(apart)) if not is_mark), len(apart))
    return first, last, first == len(apart)
