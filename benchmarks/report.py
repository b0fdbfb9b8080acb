"""What every benchmark is told with: rows with their bounds, on what machine they came about, and the command line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Sizes = TypeVar("Sizes")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, what it stands beside, their ratio, and the most that figure (or ratio, with `x`) may be."""

    name: str
    figure: float
    unit: str
    beside: str = ""
    other: float | None = None
    ratio: float | None = None
    bound: float | None = None

    @property
    def fine(self) -> bool | None:
        """Whether the bound is kept; None without a bound."""
        judged = self.figure if self.ratio is None else self.ratio
        return None if self.bound is None else judged <= self.bound


@dataclass(slots=True)
class Report:
    """The rows, and on what machine they came about."""

    rows: list[Row] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, figure: float, unit: str, beside: str = "", other: float | None = None, *,
            bound: float | None = None, compared: bool = False) -> None:
        """One more row; `compared`: the ratio to `other` is what counts."""
        ratio = figure / other if compared and other else None
        self.rows.append(Row(name, figure, unit, beside, other, ratio, bound))

    def as_text(self) -> str:
        """The table."""
        lines = [f"{'':50}{'figure':>13}  {'beside':<44}{'ratio':>8}{'bound':>8}"]
        for row in self.rows:
            figure, other = _short(row.figure, row.unit), "" if row.other is None else _short(row.other, row.unit) + " "
            ratio = "" if row.ratio is None else f"{row.ratio:.2f} x"
            bound = "" if row.bound is None else f"{row.bound:g}{'' if row.fine is not False else ' !'}"
            lines.append(f"{row.name:50}{figure:>13}  {other + row.beside:<44}{ratio:>8}{bound:>8}")
        return "\n".join([*lines, "", ", ".join(f"{name} {value}" for name, value in self.facts.items())])

    def as_json(self) -> str:
        """The same, for programs."""
        return json.dumps({"facts": self.facts, "rows": [{**asdict(row), "fine": row.fine} for row in self.rows]}, indent=2)


def command_line(told: str | None, measure: Callable[[Path, Sizes], tuple[Report, dict[str, Any]]], usual: Sizes,
                 tiny: Sizes) -> None:
    """`main` of a benchmark. `told`: its docstring; `measure`: from a folder, removed afterwards, and sizes to the rows and to
    facts of its own, beside those of the machine.
    """
    parser = argparse.ArgumentParser(description=(told or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--folder", type=Path, default=None, help="where to write; a new folder in it is used and removed")
    given = parser.parse_args()
    folder, load = Path(tempfile.mkdtemp(prefix="sop-bench-", dir=given.folder)), os.getloadavg()[0]
    try:
        report, own = measure(folder, tiny if given.tiny else usual)
    finally:
        shutil.rmtree(folder)
    report.facts = {"date": time.strftime("%Y-%m-%d"), "python": platform.python_version(), **own, "machine": platform.machine(),
                    "cores": os.cpu_count(), "load before": round(load, 2), "load after": round(os.getloadavg()[0], 2)}
    print(report.as_json() if given.json else report.as_text())


def _short(figure: float, unit: str) -> str:
    return f"{figure:.3g} {unit}" if figure < 100 else f"{figure:,.0f} {unit}"
