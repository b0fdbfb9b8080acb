"""Hostile inputs: corpora that are cut, spliced, pumped and nested. Each input follows from a seed and a number alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

ATOMS = (
    "\x00",
    "\ufeff",
    "\ud800",
    "\udfff",
    "\u202e",
    "\u009b",
    "\x1b[2J",
    "\r",
    "\n",
    "\t",
    " ",
    "\u00a0",
    "\u2028",
    "a\u0301",
    "“",
    "”",
    "NaN",
    "Infinity",
    "-0",
    "1e999",
    "1e-999",
    "9" * 400,
    "0." + "3" * 400,
    "-" + "9" * 5000,
    "1_000",
    "0x1F",
    "1" * 40,
    "null",
    "true",
    "''",
    '""',
    "\\",
    "\\u0000",
    "\\ud800",
    "\\x",
    "%s%n",
    "%00",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "${A}",
    "$(a)",
    "`",
    "```",
    "<",
    ">",
    "</",
    "/>",
    "<!--",
    "-->",
    "<![CDATA[",
    "&amp;",
    "&#0;",
    "&x;",
    "&",
    "<?",
    "|",
    "||",
    "*",
    "**",
    "?",
    "[",
    "]",
    "(",
    ")",
    "[^",
    "(?:",
    "+",
    ".*",
    "^",
    "$",
    "...",
    "../",
    "/",
    "//",
    ":",
    "::",
    "@",
    "#",
    ",",
    ";",
    "=",
    "===",
    "====",
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "---",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!!python/object:x",
    "%",
    "~",
    "-",
    "--",
    "é",
    "🙂",
    "\U000e0041",
    "x" * 300,
)
"""What is put in anywhere."""
PAIRS = (
    ("[", "]"),
    ("{", "}"),
    ("(", ")"),
    ("<a>", "</a>"),
    ("<div>", ""),
    ('{"a":', "}"),
    ("[[", "]]"),
    ("{{", "}}"),
    ("{% if a %}", "{% endif %}"),
    ("“", "”"),
    ("'", "'"),
    ('"', '"'),
    ("`", "`"),
    ("*", "*"),
    ("**", "**"),
    ("_", "_"),
    ("> ", ""),
    ("- ", ""),
    ("-", ""),
    ("not ", ""),
    ("a.", "b"),
    ("$(", ")"),
    ("(?:", ")*"),
    ("(a", ")+"),
    ('{"items":', "}"),
    ('{"$ref":"#', '"}'),
    ('{"anyOf":[', "]}"),
    ("lambda: ", "0"),
    ("a=", "1"),
    ("if 1:\n ", "pass"),
    ("f(", ")"),
    ("a[", "]"),
    ("sudo ", "ls"),
    ("env A=1 ", "ls"),
    ("sh -c '", "'"),
    ("[a](", ")"),
    ("![a](", ")"),
    ("<b", ">"),
)
"""What is nested."""
Piece = Callable[[Random, Sequence[str], int], str]


def hostile(random: Random, corpus: Sequence[str], most: int) -> str:
    """One input of at most `most` characters."""
    text = random.choice(_WAYS)(random, corpus, most)
    for _ in range(random.choice((0, 0, 1, 3))):
        text = _changed(random, text, corpus)
    return text[:most]


def _size(random: Random, most: int) -> int:
    """Small sizes are as likely as large ones, on the scale of their logarithm."""
    return int(math.exp(random.uniform(0, math.log(most))))


def _pumped(random: Random, corpus: Sequence[str], most: int) -> str:
    """A word, or two in turn, again and again, between parts of the corpus."""
    words = [
        random.choice((random.choice(ATOMS), random.choice(_split(random, corpus)) or "a"))
        for _ in range(random.choice((1, 1, 2, 3)))
    ]
    many = "".join(words)
    before, after = _part(random, corpus), _part(random, corpus)
    return f"{before}{many * (_size(random, most) // max(1, len(many)) + 1)}{after}"


def _nested(random: Random, corpus: Sequence[str], most: int) -> str:
    opening, closing = random.choice(PAIRS)
    depth = max(1, _size(random, most) // (len(opening) + len(closing)))
    closed = depth if random.random() < 0.6 else random.randint(0, depth)
    return f"{_part(random, corpus)}{opening * depth}{random.choice(ATOMS)}{closing * closed}{_part(random, corpus)}"


def _spliced(random: Random, corpus: Sequence[str], most: int) -> str:
    one, other = random.choice(corpus), random.choice(corpus)
    return one[: random.randint(0, len(one))] + other[random.randint(0, len(other)) :]


def _whole(random: Random, corpus: Sequence[str], most: int) -> str:
    text = random.choice(corpus)
    for _ in range(random.randint(1, 12)):
        text = _changed(random, text, corpus)
    return text


def _lines(random: Random, corpus: Sequence[str], most: int) -> str:
    """Lines of the corpus in any order, often."""
    lines = random.choice(corpus).split("\n")
    return "\n".join(random.choice(lines) for _ in range(min(_size(random, most), most // (max(map(len, lines)) + 1) + 1)))


def _noise(random: Random, corpus: Sequence[str], most: int) -> str:
    return "".join(
        chr(random.choice((random.randint(0, 127), random.randint(0, 0x10FFFF)))) for _ in range(_size(random, min(most, 4000)))
    )


_WAYS: tuple[Piece, ...] = (_pumped, _pumped, _nested, _nested, _spliced, _whole, _whole, _lines, _noise)


def _changed(random: Random, text: str, corpus: Sequence[str]) -> str:
    at, end = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
    match random.randint(0, 5):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:end] + text[at:end] * random.choice((1, 2, 40)) + text[end:] if len(text) < 100_000 else text[:end]
        case 2:
            return text[:at] + random.choice(ATOMS) + text[at:]
        case 3:
            return text[:at] + random.choice(ATOMS) + text[min(len(text), at + random.randint(1, 8)) :]
        case 4:
            return text[:at] + _part(random, corpus) + text[at:]
        case _:
            opening, closing = random.choice(PAIRS)
            return text[:at] + opening + text[at:end] + closing + text[end:]


def _split(random: Random, corpus: Sequence[str]) -> list[str]:
    return random.choice(corpus).split()[:200] or [" "]


def _part(random: Random, corpus: Sequence[str]) -> str:
    text = random.choice(corpus)
    at = random.randint(0, len(text))
    return random.choice(("", "", text[:at], text[at : at + 80], text))
