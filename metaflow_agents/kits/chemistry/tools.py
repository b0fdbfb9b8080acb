"""The tools: functions with texts as arguments, whose docstrings are what roles are told. None of them has an effect.

What is computed of a structure is computed in a worker; the rest is arithmetic and tables. A substance is a name of the table
that ships, a CAS number in it, or a SMILES. What can't be worked out is told with the fix.
"""

from __future__ import annotations

from typing import Any

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.kits.chemistry.quantities import quantity, shown
from metaflow_agents.kits.chemistry.substances import form, named, phrases, table, worked_out


async def structure(substance: str) -> dict[str, Any]:
    """The structure of a substance: SMILES, formula, InChIKey, and its CAS number where the table has it.

    Args:
        substance: its name, a CAS number, or a SMILES.
    """
    (name,), found = await worked_out("structure", substance)
    known = table().get(form(name))
    return {"name": name, **found, **({} if known is None else {"cas": known.cas})}


async def describe(substance: str) -> dict[str, Any]:
    """Molar mass and descriptors of a substance: formula, g/mol, logP (Crippen), polar surface, hydrogen bonds, rings.

    Args:
        substance: its name, a CAS number, or a SMILES.
    """
    (name,), found = await worked_out("describe", substance)
    return {"name": name, **found}


async def similarity(first: str, second: str) -> dict[str, Any]:
    """How alike two structures are: Tanimoto's coefficient of their Morgan fingerprints (radius 2, 2048 bits), 0 to 1.

    Args:
        first: a name, a CAS number, or a SMILES.
        second: another one.
    """
    (one, other), alike = await worked_out("similarity", first, second)
    return {"first": one, "second": other, "tanimoto": round(alike, 3)}


async def functional_groups(substance: str) -> dict[str, Any]:
    """The functional groups of a substance, each with how often it is there.

    Args:
        substance: its name, a CAS number, or a SMILES.
    """
    (name,), found = await worked_out("groups", substance)
    return {"name": name, "groups": found}


async def solution(substance: str, concentration: str, volume: str) -> dict[str, Any]:
    """How much of a substance a solution of that concentration and volume holds.

    Args:
        substance: its name, a CAS number, or a SMILES.
        concentration: with its unit, `0.5 mol/L`, `20 mM` or `9 g/L`.
        volume: with its unit, `250 mL`.
    """
    (name,), molar_mass = await worked_out("molar_mass", substance)
    amount, kind = quantity(concentration, "molarity", "mass concentration")
    litres, _ = quantity(volume, "volume")
    molarity = amount if kind == "molarity" else amount / molar_mass
    return {"name": name, "mass": shown(molarity * molar_mass * litres, "mass"), "molarity": shown(molarity, "molarity"),
            "mass_concentration": shown(molarity * molar_mass, "mass concentration"), "volume": shown(litres, "volume"),
            "molar_mass_g_mol": round(molar_mass, 3)}


def dilution(stock: str, wanted: str, volume: str) -> dict[str, Any]:
    """How much stock solution, filled up to a volume, gives the wanted concentration.

    Args:
        stock: its concentration with the unit, `5 mol/L` or `100 g/L`.
        wanted: the concentration wanted, of the same kind.
        volume: the volume wanted, `100 mL`.
    """
    strong, kind = quantity(stock, "molarity", "mass concentration")
    weak, _ = quantity(wanted, kind)
    litres, _ = quantity(volume, "volume")
    if weak > strong:
        raise AnswerInvalid([f"`{wanted}` is more than the stock's `{stock}`, and dilution makes less: take a stronger stock"])
    taken = litres * weak / strong
    return {"stock": shown(taken, "volume"), "filled_up_to": shown(litres, "volume"), "factor": round(strong / weak, 4)}


def safety(substance: str) -> dict[str, Any]:
    """The safety phrases (GHS) of a substance of the table: hazard and precautionary statements. The safety data sheet of its
    supplier is what holds.

    Args:
        substance: its name or CAS number.
    """
    found = named(substance)
    return {"name": found.name, "hazards": {code: phrases()[code] for code in found.hazards},
            "precautions": {code: phrases()[code] for code in found.precautions},
            "note": "by the table that ships" + ("" if found.hazards else ", where it has none") +
                    "; the safety data sheet of the supplier holds"}
