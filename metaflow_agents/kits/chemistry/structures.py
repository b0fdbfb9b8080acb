"""Structures, as this process has them: texts, which a worker reads with RDKit (the extra `chemistry`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metaflow_agents import plugins
from metaflow_agents.workers.pool import parsed

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


async def read(what: str, texts: Sequence[str]) -> Any:
    """What the job `structures` gives for these texts, see `molecules.structures_job`.

    Raises ForeignRefused, whose message goes on from the name of what was read, and RunError where no worker starts.
    """
    return await parsed("structures", b"", what=what, texts=list(texts))
