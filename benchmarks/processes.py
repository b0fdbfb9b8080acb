"""Commands as whole processes, timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

SOP = [sys.executable, "-c", "import sys; from metaflow_agents.cli import main; sys.exit(main())"]
"""The command `sop`, of the Python that measures."""


def seconds_of(command: list[str], folder: Path) -> float:
    """From start to end of a process; Python's compiled files are kept, as they are beside an installed package.

    Raises RuntimeError where it fails.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "COLUMNS": "100"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[3:])} ended with {done.returncode}: {done.stderr or done.stdout}")
    return time.perf_counter() - begun
