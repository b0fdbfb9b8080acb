"""A line of the table of papers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperRow:
    """What a paper found and what is found here; `differs`: what is not comparable, said plainly."""

    technique: str
    what: str
    paper: str
    here: str
    differs: str
