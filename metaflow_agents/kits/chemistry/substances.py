"""The table of substances that ships: everyday ones of a laboratory and a household, with structures and safety phrases."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from metaflow_agents.errors import AnswerInvalid, NotHere, did_you_mean
from metaflow_agents.kits.chemistry.structures import LONGEST, MOST_ATOMS, missing, molecule
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


def read(substance: str) -> tuple[str, Any]:
    """What to call a substance, and its molecule: by a name, a CAS number, or as a SMILES. Raises AnswerInvalid, NotHere."""
    if lacking := missing():
        raise NotHere(lacking)
    known = table().get(form(substance))
    found = molecule(known.smiles if known else substance.strip())
    if found is None:
        if len(substance) > LONGEST:
            raise AnswerInvalid([f"a structure of {len(substance):,} characters is not read: write {LONGEST:,} at most"])
        nearest = did_you_mean(substance, list(dict.fromkeys(one.name for one in table().values())), limit=8)
        raise AnswerInvalid([f"`{substance[:80]}` is no name in the table of substances, and no SMILES of {MOST_ATOMS} atoms at "
                             f"most: {nearest}"])
    return known.name if known else substance.strip(), found


def form(name: str) -> str:
    """A name as names are compared: any case, spaces and hyphens alike."""
    return " ".join(plain_words(name))


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((files(__package__) / name).read_text(encoding="utf-8").splitlines(), delimiter=";"))
