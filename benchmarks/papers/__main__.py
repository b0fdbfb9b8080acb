"""Papers' figures beside those measured here, in one table: `python -m benchmarks.papers`.

Every module of this folder with a function `rows(data)` gives some of its rows. Data of the papers lie in the folder that
SOP_TEST_DATA names, or `--data`; what lacks its data is left out, and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from benchmarks.papers.row import PaperRow

Rows = Callable[[Path], list[PaperRow]]


def sources() -> dict[str, Rows]:
    """Module → what gives its rows; those without are what others build on."""
    names = sorted(found.name for found in iter_modules([str(Path(__file__).parent)]) if not found.name.startswith("_"))
    modules = {name: import_module(f"benchmarks.papers.{name}") for name in names}
    return {name: module.rows for name, module in modules.items() if hasattr(module, "rows")}


def collected(data: Path | None, only: list[str]) -> tuple[list[PaperRow], dict[str, str]]:
    """All rows, and module → why it gives none. A figure that can't be measured with its data there is an error, and raised."""
    rows: list[PaperRow] = []
    skipped: dict[str, str] = {}
    for name, of in sources().items():
        if only and name not in only:
            continue
        if data is None or not data.is_dir():
            skipped[name] = "SOP_TEST_DATA names no folder with the papers' data" if data is None else f"no folder {data}"
            continue
        try:
            rows += of(data)
        except FileNotFoundError as error:
            if error.filename is None or not Path(error.filename).resolve().is_relative_to(data.resolve()):
                raise
            skipped[name] = f"{Path(error.filename).resolve().relative_to(data.resolve())} is not among the data"
    return rows, skipped


def table(rows: list[PaperRow], skipped: dict[str, str]) -> str:
    """As Markdown: a line for each figure, and what was left out."""
    lines = [("technique", "what", "paper", "here", "what is not comparable"), ("---",) * 5,
             *((row.technique, row.what, row.paper, row.here, row.differs) for row in rows)]
    told = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]
    return "\n".join([*told, *(f"left out: {name}: {why}" for name, why in skipped.items())])


def main(arguments: list[str] | None = None) -> int:
    """Prints the table. Exit status 0, also where something was left out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("module", nargs="*", help="only these")
    parser.add_argument("--data", type=Path, help="the folder of the papers' data; by default SOP_TEST_DATA")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.module if name not in sources()]
    if unknown:
        parser.error(f"there is no `{unknown[0]}`; there is: {', '.join(sources())}")
    named = os.environ.get("SOP_TEST_DATA")
    rows, skipped = collected(given.data or (Path(named) if named else None), given.module)
    told = json.dumps({"rows": [asdict(row) for row in rows], "skipped": skipped}, indent=1, ensure_ascii=False)
    print(told if given.json else table(rows, skipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
