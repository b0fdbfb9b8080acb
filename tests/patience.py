"""How long a test waits for what must come. Nothing is measured by it: without the mechanism it would wait for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds until what does not come is given up; on an idle machine everything comes within one or two."""


def until(holds: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Waits for something that is about to be."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.02)
