"""Edits carried out in their order."""

from __future__ import annotations

from collections.abc import Sequence

from metaflow_agents.code.edits.lines import File
from metaflow_agents.code.edits.model import Edit, Edited, EditFault, Hints
from metaflow_agents.code.edits.nearest import nearest
from metaflow_agents.code.edits.placing import COUNTED, places_of
from metaflow_agents.code.edits.splicing import EditPlace


def edited(text: str, edits: Sequence[Edit], hints: Hints) -> Edited:
    """The text after the edits, in their order: each sees what those before it did."""
    file, faults, places = File.read(text), [], []
    for edit in edits:
        if not any(line.strip() for line in edit.search):
            faults.append(EditFault(edit, "SEARCH holds no text: write the lines before or after which to add, "
                                      "or the whole file in a file block"))
            continue
        found = places_of(file, edit, hints)
        if isinstance(found, EditPlace):
            file = found.spliced(file)
            places.append((found.start + 1, found.fit))
        elif found:
            lines = ", ".join(str(start + 1) for start in found[:8])
            times = f"{len(found)} times" if len(found) < COUNTED else f"{COUNTED} times and more"
            faults.append(
                EditFault(
                    edit, f"SEARCH stands {times} in the file, at its lines {lines}: add the lines around the one that is meant"
                )
            )
        else:
            faults.append(
                EditFault(edit, f"SEARCH is not in the file{nearest(edit.search, file.lines) if hints.spend() else ''}")
            )
    return Edited(file.text, tuple(faults), tuple(places))
