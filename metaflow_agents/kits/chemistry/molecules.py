"""Structures by RDKit (https://www.rdkit.org), in a worker alone: the job `structures` of `workers/jobs.py`.

No other module imports this one. A process that has loaded usearch (the index `hnsw`) ends where it loads RDKit, and a structure
that somebody else wrote is read where it can do no more than end its worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from rdkit import Chem, DataStructs, rdBase
from rdkit.Chem import Crippen, Descriptors, Lipinski, rdFingerprintGenerator, rdMolDescriptors
from rdkit.Chem.MolStandardize import rdMolStandardize

from metaflow_agents.kits.chemistry.structures import LONGEST, MOST_ATOMS

GROUPS = {
    "alcohol": "[CX4][OX2H]", "phenol": "c[OX2H]", "ether": "[OD2;!$(OC=O)]([#6;!$(C=O)])[#6;!$(C=O)]",
    "aldehyde": "[CX3H1](=O)[#6]", "ketone": "[#6][CX3](=O)[#6]", "carboxylic acid": "[CX3](=O)[OX2H1]",
    "carboxylate": "[CX3](=O)[O-]", "ester": "[CX3](=O)[OX2][#6]", "amide": "[NX3][CX3](=[OX1])",
    "amine": "[NX3;!$(NC=[O,N,S]);!$(N~[!#6;!#1])]", "nitrile": "[CX2]#N", "nitro": "[NX3+](=O)[O-]", "thiol": "[#6][SX2H]",
    "thioether": "[#6][SX2][#6]", "sulfoxide": "[#6][SX3](=O)[#6]", "sulfonic acid or sulfonate": "S(=O)(=O)[OX1-,OX2H]",
    "halide": "[#6][F,Cl,Br,I]", "alkene": "[CX3]=[CX3]", "alkyne": "[CX2]#[CX2]", "aromatic ring": "a1aaaaa1",
    "azo": "[#6]N=N[#6]"}
"""Functional group → the SMARTS that finds it."""


def structures_job(_: bytes, what: str, texts: Sequence[str]) -> Any:
    """`what`: `skeletons`, whose result is a list for each text, empty for one that spells no structure; or a name of `COMPUTED`,
    whose result is `{"found": …}`, or `{"unread": N}` with the place of the first text that spells none.
    """
    with rdBase.BlockLogs():
        if what == "skeletons":
            return [sorted(skeletons(text)) for text in texts]
        read = [molecule(text) for text in texts]
        for place, one in enumerate(read):
            if one is None or one.GetNumAtoms() > MOST_ATOMS:
                return {"unread": place}
        return {"found": COMPUTED[what](*read)}


def molecule(text: str) -> Any:
    """The molecule that a SMILES or an InChI spells; None where it spells none."""
    if not text or len(text) > LONGEST:
        return None
    found = Chem.MolFromInchi(text) if text.startswith("InChI=") else Chem.MolFromSmiles(text)
    return found if found is not None and found.GetNumAtoms() else None


def skeletons(text: str) -> set[str]:
    """The first block of the InChIKeys of a structure's parts: what is bound to what, whatever stereo, isotopes and charges.

    A part of more than `MOST_ATOMS` atoms is larger than any that is listed. The parts beside it are looked at.
    """
    found = molecule(text)
    blocks: set[str] = set()
    for part in () if found is None else Chem.GetMolFrags(found, asMols=True):
        if 1 < part.GetNumAtoms() <= MOST_ATOMS:
            neutral = rdMolStandardize.Uncharger().uncharge(part)
            blocks.update(_key(one).partition("-")[0] for one in (part, neutral))
    return blocks - {""}


def _key(found: Any) -> str:
    """The InChIKey of a molecule; empty where it has none."""
    return str(Chem.MolToInchiKey(found))


def _structure(found: Any) -> dict[str, Any]:
    return {"smiles": Chem.MolToSmiles(found), "formula": rdMolDescriptors.CalcMolFormula(found), "inchikey": _key(found)}


def _described(found: Any) -> dict[str, Any]:
    return {"formula": rdMolDescriptors.CalcMolFormula(found), "molar_mass_g_mol": round(_molar_mass(found), 3),
            "logp": round(Crippen.MolLogP(found), 2), "polar_surface_A2": round(rdMolDescriptors.CalcTPSA(found), 1),
            "h_bond_donors": Lipinski.NumHDonors(found), "h_bond_acceptors": Lipinski.NumHAcceptors(found),
            "rotatable_bonds": Lipinski.NumRotatableBonds(found), "rings": rdMolDescriptors.CalcNumRings(found)}


def _molar_mass(found: Any) -> float:
    return float(Descriptors.MolWt(found))


def _similarity(first: Any, second: Any) -> float:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return float(DataStructs.TanimotoSimilarity(generator.GetFingerprint(first), generator.GetFingerprint(second)))


@cache
def _patterns() -> dict[str, Any]:
    return {group: Chem.MolFromSmarts(smarts) for group, smarts in GROUPS.items()}


def _groups(found: Any) -> dict[str, int]:
    counts = {group: len(found.GetSubstructMatches(pattern)) for group, pattern in _patterns().items()}
    return {group: count for group, count in counts.items() if count}


COMPUTED: Mapping[str, Callable[..., Any]] = {
    "structure": _structure, "describe": _described, "molar_mass": _molar_mass, "similarity": _similarity, "groups": _groups}
"""What is worked out of one or two molecules, as a JSON value."""
