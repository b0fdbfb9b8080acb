"""A row of the table that sets a paper's figure beside the one that is measured here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One figure. `differs`: what makes the two not comparable, said plainly."""

    technique: str
    what: str
    paper: str
    here: str
    differs: str
