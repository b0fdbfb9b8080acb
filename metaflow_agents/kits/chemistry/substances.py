"""The table of substances that ships: everyday ones of a laboratory and a household, with structures and safety phrases."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from metaflow_agents.errors import AnswerInvalid, ForeignRefused, NotHere, did_you_mean
from metaflow_agents.kits.chemistry.structures import LONGEST, MOST_ATOMS, missing, read
from metaflow_agents.texts.names import plain_words


@dataclass(frozen=True, slots=True)
class Substance:
    """One row. `name` is the first of its names; `hazards` and `precautions` are codes of GHS, in their order."""

    name: str
    cas: str
    smiles: str
    hazards: tuple[str, ...] = ()
    precautions: tuple[str, ...] = ()


@cache
def table() -> dict[str, Substance]:
    """Every name, and every CAS number, in the form in which they are compared → its substance."""
    found: dict[str, Substance] = {}
    for row in _rows("substances.csv"):
        names = row["names"].split("|")
        one = Substance(names[0], row["cas"], row["smiles"], tuple(row["hazards"].split()), tuple(row["precautions"].split()))
        found |= {form(name): one for name in (*names, one.cas)}
    return found


@cache
def phrases() -> dict[str, str]:
    """Code of a hazard or precautionary statement → its words."""
    return {row["code"]: row["phrase"] for row in _rows("phrases.csv")}


def named(name: str) -> Substance:
    """The substance of a name or a CAS number. Raises AnswerInvalid with the nearest names for one that is not in the table."""
    found = table().get(form(name))
    if found is None:
        known = list(dict.fromkeys(one.name for one in table().values()))
        raise AnswerInvalid([f"the table of substances has no `{name[:80]}`: {did_you_mean(name, known, limit=8)}"])
    return found


async def worked_out(what: str, *substances: str) -> tuple[list[str], Any]:
    """What to call each substance, given by a name, a CAS number or as a SMILES, and what a worker gives for their structures.

    Raises AnswerInvalid for what is none of these, ForeignRefused for what can't be read within the limits of a worker, NotHere.
    """
    if lacking := missing():
        raise NotHere(lacking)
    known = [table().get(form(one)) for one in substances]
    written = [one.strip() if its is None else its.smiles for one, its in zip(substances, known, strict=True)]
    for text in written:
        if len(text) > LONGEST:
            raise AnswerInvalid([f"a structure of {len(text):,} characters is not read: write {LONGEST:,} at most"])
    try:
        gave = await read(what, written)
    except ForeignRefused as error:
        raise ForeignRefused(f"reading {' and '.join(f'`{one[:80]}`' for one in written)} {error}") from None
    if "unread" in gave:
        substance = substances[gave["unread"]]
        nearest = did_you_mean(substance, list(dict.fromkeys(one.name for one in table().values())), limit=8)
        raise AnswerInvalid([f"`{substance[:80]}` is no name in the table of substances, and no SMILES of {MOST_ATOMS} atoms at "
                             f"most: {nearest}"])
    return [text if its is None else its.name for text, its in zip(written, known, strict=True)], gave["found"]


def form(name: str) -> str:
    """A name as names are compared: any case, spaces and hyphens alike."""
    return " ".join(plain_words(name))


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((files(__package__) / name).read_text(encoding="utf-8").splitlines(), delimiter=";"))
