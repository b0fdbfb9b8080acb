"""`pyproject.toml` that somebody else wrote, read within bounds. Pure."""

from __future__ import annotations

import tomllib
from typing import Any

from metaflow_agents.schema.checks import too_deep

PYPROJECT = "pyproject.toml"
LONGEST_TOML = 20_000               # characters: the time that dotted keys take grows with the square of their length


def read_toml(text: str) -> dict[str, Any]:
    """TOML that somebody else wrote. Raises ValueError, also for what is longer than `LONGEST_TOML` or nested too deep."""
    if len(text) > LONGEST_TOML:
        raise ValueError(f"it has more than {LONGEST_TOML:,} characters")
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if too_deep(found):
        raise ValueError("it is nested too deep")
    return found
