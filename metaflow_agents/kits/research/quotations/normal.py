"""One form of a text in which two printings of the same words are equal, whatever their type, lines and hyphenation.

Made equal: ligatures and full-width letters (Unicode NFKC), quotation marks of every kind, dashes of every length and the
space around them, dots of ellipses, white space and line breaks, Markdown emphasis and links, marks of notes. Kept: letters and
their case, accents, digits, exponents after digits, punctuation, hyphens within words.

What one reading can't settle stays open in the text as a mark: a hyphen at the end of a line may be part of the word or not
(`HYPHEN`), a dash at the start of one may be the author's or a bullet (`DASH`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from metaflow_agents.schema.unicode_form import normalized

HYPHEN, DASH, EITHER_CASE = "\ue000", "\ue001", "\ue002"
GAPS = re.compile(f"[ –{DASH}{HYPHEN}-]+")
_RUN = re.compile(f"[^ –{DASH}{HYPHEN}-]+")
_OWN = re.compile("[\ue000\ue001\ue003-\ue01f]")               # private characters that mean something here: not from outside
_EXPONENT = {ord(sign): 0xE010 + digit for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_ACCENTS = {0xB4: "'", 0x2018: "'", 0x2019: "'", 0x2032: "'"}        # those that NFKC would take apart, and the commonest marks
_RAISED = "[⁰¹²³⁴-⁹]+"
_NOTE = re.compile(rf"(?<=[.,;:!?\"'”’»)]){_RAISED}(?=\s|$)|\s?\[\^[^\]\s]{{1,40}}\]"
                   r"|\s?\[\d{1,3}(?:\s?[,–-]\s?\d{1,3})*\](?!\()")
_POWER = re.compile(rf"(?<=\d){_RAISED}")
_FRACTION = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?:\s\"[^\"]*\")?\)")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!>\"'~|])")
_SPACES = re.compile(r"\s+")
_EMPHASIS = re.compile(r"[*_`~]+")
_LINE_START = re.compile(r"\s*(?:>\s?)*(?:#{1,6}\s+|[*•‣▪◦·+]\s+)?")
_START_DASH = re.compile(r"(?:-|–)+\s*(?=\S)")
_FORMATS = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]")
_MINUS = re.compile(r"(?<![^\s(\[])[−–‒](?=\d)")
_DASHES = re.compile(r"\s*(?:--+|[–—―‒−])\s*|\s+-+\s+|\s+-$")
_QUOTES = re.compile("«\\s*|\\s*»|‹\\s*|\\s*›|[“”„‟‘’‚‛\"`´′″「」『』]+|''")
_DOTS = re.compile(r"\s*\.\s?\.\s?\.\s*")
_BEFORE_SIGN = re.compile(r"\s+(?=[,.;:!?%)])")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Normal:
    """A text in its one form. `lines` are the lines it came from, each with its page; `starts` where each begins in `text`."""

    text: str
    starts: list[int] = field(repr=False)
    lines: list[tuple[int | None, str]] = field(repr=False)

    @cached_property
    def bare(self) -> str:
        """The text without white space, hyphens and dashes: what two readings of it have in common."""
        return GAPS.sub("", self.text)

    @cached_property
    def _runs(self) -> tuple[list[int], list[int]]:
        """Where each run of bare text begins: in `bare`, and in `text`."""
        inside, outside, length = [], [], 0
        for found in _RUN.finditer(self.text):
            inside.append(length)
            outside.append(found.start())
            length += found.end() - found.start()
        return inside, outside

    def place_of(self, bare: int) -> int:
        """The place in `text` of a place in `bare`."""
        inside, outside = self._runs
        run = bisect_right(inside, bare) - 1
        return outside[run] + bare - inside[run]

    def line_at(self, place: int) -> int:
        """The number of the line that a place of the text came from."""
        return max(0, bisect_right(self.starts, place) - 1)

    def page_at(self, place: int) -> int | None:
        """The page that a place of the text came from."""
        return self.lines[self.line_at(place)][0] if self.lines else None


def normal(pages: Iterable[tuple[int | None, str]]) -> Normal:
    """The one form of a text that is given page by page; what is broken over a page is joined as over a line."""
    parts: list[str] = []
    starts: list[int] = []
    lines: list[tuple[int | None, str]] = []
    length, before = 0, ""
    for number, text in pages:
        for raw in text.split("\n"):
            line, dashed = _line(raw)
            if not line:
                continue
            before, joint = _joined(before, line, dashed) if before else ("", "")
            if parts:
                length += len(before) - len(parts[-1])
                parts[-1] = before
                parts.append(joint)
                length += len(joint)
            starts.append(length)
            lines.append((number, raw))
            parts.append(line)
            length += len(line)
            before = line
    return Normal("".join(parts), starts, lines)


def normal_text(text: str) -> str:
    """The one form of a text without pages."""
    return normal([(None, text)]).text


def _line(raw: str) -> tuple[str, bool]:
    """One line in its form, and whether a dash stood at its start."""
    text = _LINE_START.sub("", _OWN.sub("", raw).translate(_ACCENTS).replace("``", "“"), count=1)
    text = _POWER.sub(lambda found: found[0].translate(_EXPONENT), _NOTE.sub("", text))
    text = normalized("NFKC", _FRACTION.sub(" ", text))
    text = text.replace("\u2044", "/").replace("\u2010", "-").replace("\u2043", "-").rstrip()
    if text.endswith("\u00ad"):
        text = text[:-1] + "-"
    text = _FORMATS.sub("", text)
    text = _EMPHASIS.sub(_emphasis, _ESCAPE.sub(r"\1", _LINK.sub(r"\1", text)))
    text = _QUOTES.sub("'", _SPACES.sub(" ", text))         # one space at most: the patterns from here on look behind spaces
    text = _DASHES.sub("–", _MINUS.sub("-", text))
    text = _BEFORE_SIGN.sub("", _DOTS.sub("...", " ".join(text.split())))
    dash = _START_DASH.match(text)
    if dash and not text[dash.end() - 1:dash.end() + 1].lstrip("-–")[:1].isdigit():
        return text[dash.end():], True
    return text, False


def _emphasis(found: re.Match[str]) -> str:
    """Signs of emphasis say nothing, but for those inside of a word (`snake_case`) and one that stands alone."""
    signs, text = found[0], found.string
    before, after = text[max(0, found.start() - 1):found.start()], text[found.end():found.end() + 1]
    inside = (before.isalnum() and after.isalnum()) and (len(signs) == 1 or set(signs) == {"_"})
    alone = len(signs) == 1 and not before.strip() and not after.strip()
    return signs if inside or alone else ""


def _joined(before: str, line: str, dashed: bool) -> tuple[str, str]:
    """How two lines are joined: (the first as it then ends, what stands between)."""
    if dashed:
        return before.rstrip("–"), DASH
    if before.endswith("-") and before[-2:-1].isalpha() and line[0].isalpha():
        return before[:-1], HYPHEN
    if before.endswith(("–", "-", "...")) or line.startswith(("–", "...")):
        return before, ""
    if _CJK.match(before[-1]) and _CJK.match(line[0]):
        return before, ""
    return before, " "
