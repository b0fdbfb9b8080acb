"""The words of texts and of names, without their endings: what searches compare. Pure."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDINGS = (("ies", "y"), ("ations", ""), ("ation", ""), ("ings", ""), ("ing", ""), ("ments", ""), ("ment", ""), ("ions", ""),
            ("ion", ""), ("ers", ""), ("er", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", ""))
_SAY_NOTHING = frozenset(
    "a an and are as at be by can do for from have how i if in is it its me my of on or that the this to was what which will "
    "with you your".split())


def words(text: str) -> list[str]:
    """The words of a text or a name that say something, without their endings: `listOpenIssues` → `list`, `open`, `issu`."""
    found = (part.lower() for run in _WORD.findall(text) for part in _HUMP.split(run))
    return [_stem(word) for word in found if word not in _SAY_NOTHING]


def _stem(word: str) -> str:
    """A word without the commonest endings of English: `booking`, `books` and `booked` meet in `book`."""
    if len(word) > 4:
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) + len(instead) >= 3:
                word = word.removesuffix(ending) + instead
                break
    elif len(word) == 4 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":
        word = word[:-1]                # `cancell`, `stopp`
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) > 3 and word.endswith("y") else word
