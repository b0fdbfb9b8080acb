"""The screen `chemistry`: substances of the schedules of the Chemical Weapons Convention, by name, CAS number and structure.

The table holds what identifies the entries of the convention's Annex on Chemicals, to refuse them, and nothing else about them:
https://www.opcw.org/chemical-weapons-convention/annexes/annex-chemicals
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice

from metaflow_agents.errors import ForeignRefused, NotHere
from metaflow_agents.kits.chemistry.structures import LONGEST, missing, read
from metaflow_agents.texts.names import Names, plain, readings
from metaflow_agents.threads.blocking import Threads

MOST = 2000
"""Tokens of one text that are read as structures; a text with more is refused."""
_DASH = "[-‐‑‒–—―−﹣－./_·]"
_CAS = re.compile(rf"(?<![\d])(\d{{2,7}})\s*{_DASH}\s*(\d{{2}})\s*{_DASH}\s*(\d)(?!\d)")
_CAS_SAID = re.compile(r"\bcas(?:[-\s]*(?:rn|nr|no|number|nummer|registry number))?[\s.:#=]*"
                       r"(\d{2,7})\s?(\d{2})\s?(\d)(?!\d)", re.I)
_KEY = re.compile(r"(?<![A-Za-z])([A-Za-z]{14})(?![A-Za-z])")
_INCHI = re.compile(r"InChI=1S?/[^\s\"'`|<>;]+", re.I)
_TOKEN = re.compile(r"[^\s\"'`|,;<>{}]+")
_LABEL = re.compile(r"^[A-Za-z_]{3,20}[=:]")           # `smiles=…`
_SMILES = re.compile(r"(?:Cl|Br|[BCNOPSFIbcnops]|\[[^\[\]]{1,20}\]|[=#$:/\\.()%0-9~-])+")
_BATCH = 200                        # tokens that a worker is asked about at once
_WINDOW = 6                         # texts in a row that may be pieces of one identifier
_CELLS = 400
_PIECE = 300                        # characters of such a piece
_CODES = ("agent {}", "{} agent", "nerve agent {}", "{} nerve agent", "agente {}", "Kampfstoff {}", "{} toxin", "газ {}",
          "{} газ", "агент {}", "вещество {}")
"""What stands beside a short code where it means a substance."""


@cache
def _table() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Name, CAS number and first block of the InChIKey → what is told of the entry."""
    names: dict[str, str] = {}
    numbers: dict[str, str] = {}
    blocks: dict[str, str] = {}
    rows = (files(__package__) / "schedules.csv").read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(rows, delimiter=";"):
        own = row["names"].split("|")
        told = f"{own[0]}, schedule {row['entry']} of the Chemical Weapons Convention"
        own += [form.format(code) for code in row["codes"].split("|") if code for form in _CODES]
        own += [name.replace("sulf", "sulph") for name in own if "sulf" in name]
        names |= {name: f"{told} (by name)" for name in own}
        numbers |= {number: f"{told} (by CAS number)" for number in row["cas"].split("|") if number}
        blocks |= {block: f"{told} (by structure)" for block in row["keys"].split("|") if block}
    return names, numbers, blocks


def listed() -> frozenset[str]:
    """The first blocks of all listed InChIKeys."""
    return frozenset(_table()[2])


def sound(number: str) -> bool:
    """Whether the last digit of a CAS number is the one that the others ask for."""
    digits = [int(sign) for sign in number if sign.isdigit()]
    return sum(place * digit for place, digit in enumerate(reversed(digits[:-1]), 1)) % 10 == digits[-1]


class Schedules:
    """Fits `policy.screens.Screen`. Raises NotHere where RDKit is not installed: structures could not be looked at then."""

    def __init__(self) -> None:
        if lacking := missing():
            raise NotHere(lacking)
        names, self._numbers, self._blocks = _table()
        self._names, self._threads = Names(names), Threads(1, "chemistry")

    async def find(self, parts: Sequence[str]) -> str:
        """The first entry that these texts name, and how; or why their structures can't all be looked at."""
        told, tokens = await self._threads.run(lambda: self._searched(parts))
        for start in () if told else range(0, len(tokens), _BATCH):
            try:
                found = await read("skeletons", tokens[start:start + _BATCH])
            except ForeignRefused as error:
                return f"what may be structures and can't be looked at: reading it {error}"
            told = next((self._blocks[block] for blocks in found for block in blocks if block in self._blocks), "")
            if told:
                break
        return told

    def _searched(self, parts: Sequence[str]) -> tuple[str, list[str]]:
        """What is refused by its name, number or key, or since it is too much; and what may spell structures."""
        told = self._names.find(parts)
        if told:
            return told, []
        texts = [_seen(reading) for part in parts for reading in readings(part)]
        joined = list(_joined([_seen(part) for part in parts]))
        told = next((told for text in (*texts, *joined) if (told := self._number(text) or self._key(text))), "")
        tokens: dict[str, None] = {}
        for text in () if told else (*texts, *joined):
            its = list(islice(dict.fromkeys(_spelt(text)), MOST + 1))
            if told := _too_much(its):
                break
            tokens |= dict.fromkeys(its)
        return told, list(tokens)

    def _number(self, text: str) -> str:
        for found in (*_CAS.finditer(text), *_CAS_SAID.finditer(text)):
            number = "-".join(found.groups()).lstrip("0")
            if sound(number) and number in self._numbers:
                return self._numbers[number]
        return ""

    def _key(self, text: str) -> str:
        return next((self._blocks[block] for found in _KEY.finditer(text) if (block := found[1].upper()) in self._blocks), "")


def _too_much(tokens: Sequence[str]) -> str:
    """Why the tokens of a text are not looked at; empty where they are."""
    if len(tokens) > MOST:
        return f"a text with more than {MOST:,} tokens that look like structures, which is more than is looked at"
    longest = max(map(len, tokens), default=0)
    return f"a structure of {longest:,} characters, which is longer than is looked at ({LONGEST:,})" if longest > LONGEST else ""


def _seen(text: str) -> str:
    """A text in which identifiers are looked for: digits in one form, nothing invisible; letters keep their case, which counts in
    a SMILES.
    """
    if text.isascii():
        return text
    return "".join(map(_sign, text))


@lru_cache(maxsize=4096)
def _sign(sign: str) -> str:
    return plain(sign).upper() if sign.isupper() else plain(sign)


def _joined(parts: Sequence[str]) -> Iterator[str]:
    """Texts in a row put together, as an identifier that was cut: with nothing between them, and with a hyphen. Of a table with
    very many cells fewer in a row: its cells are data, and each was looked at alone.
    """
    short = [part.strip() for part in parts]
    most = _WINDOW if len(short) <= _CELLS else 3
    for start in range(len(short)):
        for length in range(2, most + 1):
            row = short[start:start + length]
            if len(row) == length and all(0 < len(part) <= _PIECE and not any(map(str.isspace, part)) for part in row):
                yield "".join(row)
                yield "-".join(part.strip("-") for part in row)


def _spelt(text: str) -> Iterator[str]:
    """The tokens of a text that may spell a structure."""
    for found in _INCHI.finditer(text):
        yield "InChI=" + found[0].rstrip(".,)")[6:]
    for found in _TOKEN.finditer(text):
        token = found[0]
        token = _LABEL.sub("", token, count=1)
        for one in dict.fromkeys((token, token.strip(".:!?*_"), token.strip("().:!?*_"))):   # in a sentence, in brackets
            if len(one) > 1 and _SMILES.fullmatch(one) and any(sign.isupper() or sign.isdigit() for sign in one) \
                    and any(map(str.isalpha, one)):
                yield one
