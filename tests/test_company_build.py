"""What the software company calls built: a wheel that holds all of the package, from which each command loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from company_desk import FILES, MAIN, PACKAGE, PACKAGING, RULES

from metaflow_agents.sop.load import load_sop

NOT_SO = f"{PACKAGE} does not start from the wheel: "
LEFT_OUT = {**FILES, f"{PACKAGE}/parts/__init__.py": "ZERO = 0\n",
            RULES: FILES[RULES].replace("def total", f"from {PACKAGE}.parts import ZERO\n\n\ndef total", 1)}
NAMED_WRONG = {**PACKAGING, "pyproject.toml": PACKAGING["pyproject.toml"].replace("__main__:main", "__main__:start")}


def built(folder: Path, files: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What `build_it` runs, on these files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    command = load_sop("design_first.yaml").program.sop.steps["build_it"].run
    assert isinstance(command, tuple | list) and command[0] == "python"
    return subprocess.run([sys.executable, *command[1:]], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.one_in(4)
def test_a_whole_package_is_built(tmp_path: Path) -> None:
    done = built(tmp_path, {**FILES, **PACKAGING})
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("files", "said"), [
    ({**LEFT_OUT, **PACKAGING}, NOT_SO + f"ModuleNotFoundError: No module named '{PACKAGE}.parts'"),
    ({**FILES, **NAMED_WRONG}, NOT_SO + f"AttributeError: module '{MAIN[:-3].replace('/', '.')}' has no attribute 'start'"),
])
def test_what_does_not_start_once_it_is_installed_is_told(tmp_path: Path, files: dict[str, str], said: str) -> None:
    """In its folder each of them starts: the tests, which run there, stay green."""
    done = built(tmp_path, files)
    assert done.returncode == 1 and done.stderr.rstrip().splitlines()[-1] == said
