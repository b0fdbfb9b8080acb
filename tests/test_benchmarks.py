"""The benchmark of the engine runs and prints every row that its documentation names; what the figures are is not judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parent.parent
README = (TOP / "benchmarks/README.md").read_text(encoding="utf-8")


def without_sizes(name: str) -> str:
    return re.sub(r"\d[\d,]*", "N", name).replace("`", "")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "benchmarks.engine", "--tiny", "--json", "--folder", str(folder)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == [], "what it writes is removed"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_row_is_explained(report: dict[str, Any]) -> None:
    rows = {without_sizes(row["name"]) for row in report["rows"]}
    explained = {without_sizes(name) for name in re.findall(r"^\| (.+?) \|", README, re.MULTILINE)} - {"row", "---"}
    assert rows == explained


def test_rows_have_figures_and_bounds(report: dict[str, Any]) -> None:
    assert all(row["figure"] is not None and row["unit"] for row in report["rows"])
    bounds = {without_sizes(row["name"]): row["bound"] for row in report["rows"] if row["bound"] is not None}
    assert bounds == {"sop --help": 2, "sop check software_company.yaml": 3.5, "N activations: resume": 5,
                      "N activations: sop log": 1, "N activations: sop show": 1}
    assert {"date", "python", "cores", "load before", "load after"} <= report["facts"].keys()
