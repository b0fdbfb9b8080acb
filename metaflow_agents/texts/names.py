"""Names in texts: which of many names a text holds as a whole name, however it is written.

Compared are letters and digits in one form: Unicode NFKC, any case, without accents and invisible characters, Greek letters by
their names, Cyrillic letters inside a Latin word as the Latin ones that they look like. What stands between two words of a name
(spaces, hyphens, line breaks, nothing) does not count. A name that is a part of a longer word is no whole name.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

_WORD = re.compile(r"[^\W_]+")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_HYPHENATED = re.compile(r"[^\w\s]+\s*\n\s*")           # a word that is divided at the end of a line
_GREEK = {code: unicodedata.name(chr(code)).rpartition(" ")[2].lower() for code in range(0x3B1, 0x3CA)}
_GREEK[0x3C2] = "sigma"
_LOOKS = str.maketrans("аеорсухіѕјһԁԛԝ", "aeopcyxisjhdqw")
_LATIN, _CYRILLIC = re.compile("[a-z]"), re.compile("[а-ӿԁԛԝ]")
_LONG = 8                           # letters from which on a name is hardly two other words by chance
_SHORT = 4                          # letters below which a name is never put together of pieces of one text
_ORDINARY = frozenset("a am an and as at be bun by can do for from go he her his i if in is it me man my no not of on or pen ran "
                      "so sun tab tan ten tin to un up us was we who you sar ric".split())
"""Words at which a name of one word is not put together over spaces: "so man" is two words, "so-man" and "s o m a n" are not."""
_PLURAL = "s"


def plain(text: str) -> str:
    """A text as its words are compared: NFKC, folded case, no accents, nothing invisible, Greek letters by name."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    if not folded.isascii():
        folded = "".join(sign for sign in folded if unicodedata.category(sign) not in ("Cf", "Mn", "Me"))
        folded = folded.translate(_GREEK)
    return folded


def plain_words(text: str) -> list[str]:
    """Its words in that form: runs of letters and digits. A text without any can't be found."""
    return _WORD.findall(plain(text))


def readings(text: str) -> Iterator[str]:
    """A text, and what it says where it is escaped as URLs, HTML or JSON escape."""
    yield text
    for one in (unquote(text) if "%" in text else text, html.unescape(text) if "&" in text else text,
                _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)), text) if "\\" in text else text):
        if one != text:
            yield one


@dataclass(frozen=True, slots=True)
class _Name:
    """A name: its letters, the places between its words, and what it is told as."""

    letters: str
    breaks: frozenset[int]
    told: str


@dataclass(slots=True)
class _Laid:
    """Texts as one row of letters. `words`: place in it → the word that begins there; `between`: the same → what stands before
    it: "" (another text begins), "tight" (no space) or "loose".
    """

    letters: str
    words: dict[int, str]
    between: dict[int, str]

    def ends(self, place: int) -> bool:
        """Whether a word ends there."""
        return place in self.words or place == len(self.letters)


class Names:
    """Names to look for, each with what it is told as."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._by_start: dict[str, list[_Name]] = {}
        for written, told in names.items():
            laid = _laid([written])
            name = _Name(laid.letters, frozenset(laid.words), told)
            if name.letters:
                self._by_start.setdefault(name.letters[:2], []).append(name)
        for found in self._by_start.values():
            found.sort(key=lambda name: -len(name.letters))

    def find(self, parts: Sequence[str]) -> str:
        """What the first name is told as that stands in one of the texts, or over several that follow each other; empty: none."""
        rows = [list(parts)] + [[one] for part in parts for one in list(readings(part))[1:]]
        return next((told for row in rows if (told := self._in(_laid(row)))), "")

    def _in(self, laid: _Laid) -> str:
        for place in laid.words:
            for name in self._by_start.get(laid.letters[place:place + 2], ()):
                end = place + len(name.letters)
                if not laid.letters.startswith(name.letters, place):
                    continue
                if not laid.ends(end):
                    plural = len(name.letters) > _SHORT and laid.letters.startswith(_PLURAL, end) and laid.ends(end + 1)
                    if not plural or end in laid.words:
                        continue
                if _is_one(name, laid, place, end):
                    return name.told
        return ""


def _is_one(name: _Name, laid: _Laid, place: int, end: int) -> bool:
    """Whether words in a row are that name, and not other words that have its letters by chance."""
    cuts = [at for at in range(place + 1, end) if at in laid.words]
    odd = [at for at in cuts if at - place not in name.breaks]
    inside = [at for at in odd if laid.between[at]]             # cut within one text
    if not inside:
        return True
    if len(name.letters) < _SHORT:
        return False
    pieces = [laid.words[at] for at in (place, *cuts)]
    if len(name.letters) >= _LONG or all(len(piece) == 1 for piece in pieces):
        return True
    loose = any(laid.between[at] == "loose" for at in inside)
    return not loose or not any(piece in _ORDINARY and len(piece) > 1 for piece in pieces)


def _laid(parts: Sequence[str]) -> _Laid:
    letters: list[str] = []
    words: dict[int, str] = {}
    between: dict[int, str] = {}
    length = 0
    for part in parts:
        text, last = plain(part), 0
        for index, found in enumerate(_WORD.finditer(text)):
            word = found[0]
            if not word.isascii() and _LATIN.search(word) and _CYRILLIC.search(word):
                word = word.translate(_LOOKS)
            gap = text[last:found.start()]
            tight = not any(sign.isspace() for sign in gap) or _HYPHENATED.fullmatch(gap)
            words[length], between[length] = word, "" if index == 0 else "tight" if tight else "loose"
            letters.append(word)
            length, last = length + len(word), found.end()
    return _Laid("".join(letters), words, between)
