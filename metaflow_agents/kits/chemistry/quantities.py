"""Quantities with units: read strictly, and worked with in one unit for each kind."""

from __future__ import annotations

import math
import re
from typing import Literal

from metaflow_agents.errors import AnswerInvalid

Kind = Literal["volume", "mass", "molarity", "mass concentration"]
UNITS: dict[Kind, dict[str, float]] = {
    "volume": {"L": 1.0, "l": 1.0, "dL": 0.1, "cL": 0.01, "mL": 1e-3, "ml": 1e-3, "µL": 1e-6, "uL": 1e-6, "m3": 1000.0},
    "mass": {"g": 1.0, "kg": 1000.0, "mg": 1e-3, "µg": 1e-6, "ug": 1e-6},
    "molarity": {"mol/L": 1.0, "M": 1.0, "mmol/L": 1e-3, "mM": 1e-3, "µmol/L": 1e-6, "µM": 1e-6, "uM": 1e-6, "nM": 1e-9},
    "mass concentration": {"g/L": 1.0, "mg/mL": 1.0, "g/mL": 1000.0, "mg/L": 1e-3, "µg/mL": 1e-3, "ug/mL": 1e-3, "µg/L": 1e-6}}
"""Kind → unit → how much of the first unit of that kind it is."""
_WRITTEN = re.compile(r"\s*(\d{1,12}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?)\s*([A-Za-zµμ3/]{1,8})\s*")


def quantity(written: str, *kinds: Kind) -> tuple[float, Kind]:
    """A quantity in the first unit of its kind (L, g, mol/L, g/L), and its kind. Raises AnswerInvalid for what is none of
    `kinds`, with the units that there are.
    """
    found = _WRITTEN.fullmatch(written)
    unit = "" if found is None else found[2].replace("μ", "µ")
    for kind in kinds:
        if found is not None and unit in UNITS[kind]:
            value = float(found[1]) * UNITS[kind][unit]
            if value > 0 and math.isfinite(value):
                return value, kind
            raise AnswerInvalid([f"`{written}` has to be more than 0"])
    told = "; ".join(f"a {kind} in {', '.join(UNITS[kind])}" for kind in kinds)
    raise AnswerInvalid([f"`{written[:40]}` is not what is wanted here: {told}, as in `250 {next(iter(UNITS[kinds[0]]))}`"])


def shown(value: float, kind: Kind) -> str:
    """A quantity with four significant digits, in the unit that makes it short."""
    steps: dict[Kind, tuple[str, ...]] = {
        "volume": ("L", "mL", "µL"), "mass": ("kg", "g", "mg", "µg"), "molarity": ("mol/L", "mmol/L", "µmol/L"),
        "mass concentration": ("g/L", "mg/L", "µg/L")}
    unit = next((unit for unit in steps[kind] if value >= UNITS[kind][unit]), steps[kind][-1])
    return f"{value / UNITS[kind][unit]:.4g} {unit}"
