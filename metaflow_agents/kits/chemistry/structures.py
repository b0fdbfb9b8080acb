"""Structures by RDKit (https://www.rdkit.org), which is loaded when it is first needed: the extra `chemistry`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from metaflow_agents import plugins

WANTED = {"rdkit": (2025, 9)}
"""The package of the extra `chemistry`, with its first version that will do."""
LONGEST = 1000
"""Characters of a text that is read as a structure."""
MOST_ATOMS = 120
"""Atoms, hydrogens left out, of a structure that is looked at."""


def missing() -> str:
    """What of the extra is not installed, with the fix; empty where all of it is. Nothing is imported."""
    return plugins.missing("chemistry", WANTED)


def checkup() -> tuple[str, str]:
    """For `sop doctor`: whether the extra is installed that the screen `chemistry` and the tools of the kit need."""
    lacking = missing()
    return "note" if lacking else "ok", lacking or f"{' and '.join(WANTED)} is installed"


@lru_cache(maxsize=4096)
def molecule(text: str) -> Any:
    """The molecule that a SMILES or an InChI spells; None where it spells none, is too long or has too many atoms."""
    from rdkit import Chem, rdBase

    if not text or len(text) > LONGEST:
        return None
    with rdBase.BlockLogs():
        found = Chem.MolFromInchi(text) if text.startswith("InChI=") else Chem.MolFromSmiles(text, sanitize=True)
    return found if found is not None and 0 < found.GetNumAtoms() <= MOST_ATOMS else None


def key(found: Any) -> str:
    """The InChIKey of a molecule; empty where it has none."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        return str(Chem.MolToInchiKey(found))


def skeletons(found: Any) -> set[str]:
    """The first block of the InChIKeys of a molecule's parts: what is bound to what, whatever stereo, isotopes and charges."""
    from rdkit import Chem, rdBase
    from rdkit.Chem.MolStandardize import rdMolStandardize

    blocks: set[str] = set()
    with rdBase.BlockLogs():
        for part in Chem.GetMolFrags(found, asMols=True):
            if part.GetNumAtoms() > 1:
                neutral = rdMolStandardize.Uncharger().uncharge(part)
                blocks.update(key(one).partition("-")[0] for one in (part, neutral))
    return blocks - {""}
