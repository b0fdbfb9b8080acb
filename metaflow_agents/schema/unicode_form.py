"""Unicode's normal forms in linear time: Python sorts a run of combining marks by insertion, and 100,000 of them take minutes."""

from __future__ import annotations

import unicodedata
from typing import Literal

LONGEST_RUN = 30
"""Combining marks in a row, after which `JOINER` stands: the Stream-Safe Text Format (UAX #15, section 13)."""
JOINER = "\u034f"


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """The text in a normal form; a text with endless runs of marks gets joiners into them."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, _stream_safe(text) if any(map(unicodedata.combining, text)) else text)


def _stream_safe(text: str) -> str:
    found: list[str] = []
    run = 0
    for letter in text:
        if not unicodedata.combining(letter):
            run = 0
        elif run == LONGEST_RUN:
            found.append(JOINER)
            run = 1
        else:
            run += 1
        found.append(letter)
    return "".join(found)
