"""The tools: functions with texts as arguments, whose docstrings are what roles are told. None of them has an effect.

A substance is a name of the table that ships, a CAS number in it, or a SMILES. What can't be worked out is told with the fix.
"""

from __future__ import annotations

from typing import Any

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.kits.chemistry.quantities import quantity, shown
from metaflow_agents.kits.chemistry.structures import key
from metaflow_agents.kits.chemistry.substances import form, named, phrases, read, table

GROUPS = {
    "alcohol": "[CX4][OX2H]", "phenol": "c[OX2H]", "ether": "[OD2;!$(OC=O)]([#6;!$(C=O)])[#6;!$(C=O)]",
    "aldehyde": "[CX3H1](=O)[#6]", "ketone": "[#6][CX3](=O)[#6]", "carboxylic acid": "[CX3](=O)[OX2H1]",
    "carboxylate": "[CX3](=O)[O-]", "ester": "[CX3](=O)[OX2][#6]", "amide": "[NX3][CX3](=[OX1])",
    "amine": "[NX3;!$(NC=[O,N,S]);!$(N~[!#6;!#1])]", "nitrile": "[CX2]#N", "nitro": "[NX3+](=O)[O-]", "thiol": "[#6][SX2H]",
    "thioether": "[#6][SX2][#6]", "sulfoxide": "[#6][SX3](=O)[#6]", "sulfonic acid or sulfonate": "S(=O)(=O)[OX1-,OX2H]",
    "halide": "[#6][F,Cl,Br,I]", "alkene": "[CX3]=[CX3]", "alkyne": "[CX2]#[CX2]", "aromatic ring": "a1aaaaa1",
    "azo": "[#6]N=N[#6]"}
"""Functional group → the SMARTS that finds it."""


def structure(substance: str) -> dict[str, Any]:
    """The structure of a substance: SMILES, formula, InChIKey, and its CAS number where the table has it.

    Args:
        substance: its name, a CAS number, or a SMILES.
    """
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    name, molecule = read(substance)
    found = {"name": name, "smiles": Chem.MolToSmiles(molecule), "formula": rdMolDescriptors.CalcMolFormula(molecule),
             "inchikey": key(molecule)}
    known = table().get(form(name))
    return found if known is None else {**found, "cas": known.cas}


def describe(substance: str) -> dict[str, Any]:
    """Molar mass and descriptors of a substance: formula, g/mol, logP (Crippen), polar surface, hydrogen bonds, rings.

    Args:
        substance: its name, a CAS number, or a SMILES.
    """
    from rdkit.Chem import Crippen, Descriptors, Lipinski, rdMolDescriptors

    name, molecule = read(substance)
    return {"name": name, "formula": rdMolDescriptors.CalcMolFormula(molecule),
            "molar_mass_g_mol": round(Descriptors.MolWt(molecule), 3), "logp": round(Crippen.MolLogP(molecule), 2),
            "polar_surface_A2": round(rdMolDescriptors.CalcTPSA(molecule), 1),
            "h_bond_donors": Lipinski.NumHDonors(molecule), "h_bond_acceptors": Lipinski.NumHAcceptors(molecule),
            "rotatable_bonds": Lipinski.NumRotatableBonds(molecule), "rings": rdMolDescriptors.CalcNumRings(molecule)}


def similarity(first: str, second: str) -> dict[str, Any]:
    """How alike two structures are: Tanimoto's coefficient of their Morgan fingerprints (radius 2, 2048 bits), 0 to 1.

    Args:
        first: a name, a CAS number, or a SMILES.
        second: another one.
    """
    from rdkit import DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    (one, its), (other, others) = read(first), read(second)
    prints = [generator.GetFingerprint(molecule) for molecule in (its, others)]
    return {"first": one, "second": other, "tanimoto": round(DataStructs.TanimotoSimilarity(*prints), 3)}


def functional_groups(substance: str) -> dict[str, Any]:
    """The functional groups of a substance, each with how often it is there.

    Args:
        substance: its name, a CAS number, or a SMILES.
    """
    from rdkit import Chem

    name, molecule = read(substance)
    counts = {group: len(molecule.GetSubstructMatches(Chem.MolFromSmarts(smarts))) for group, smarts in GROUPS.items()}
    return {"name": name, "groups": {group: count for group, count in counts.items() if count}}


def solution(substance: str, concentration: str, volume: str) -> dict[str, Any]:
    """How much of a substance a solution of that concentration and volume holds.

    Args:
        substance: its name, a CAS number, or a SMILES.
        concentration: with its unit, `0.5 mol/L`, `20 mM` or `9 g/L`.
        volume: with its unit, `250 mL`.
    """
    from rdkit.Chem import Descriptors

    name, molecule = read(substance)
    molar_mass = Descriptors.MolWt(molecule)
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
