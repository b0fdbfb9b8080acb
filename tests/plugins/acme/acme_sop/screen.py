"""A screen: nobody speaks of anvils."""

from __future__ import annotations

import os
from collections.abc import Sequence


class Anvils:
    """Fits the port. Where the variable is set, it can't run here."""

    def __init__(self) -> None:
        if "ANVILS_BREAK" in os.environ:
            raise OSError("no anvil to compare with")

    def find(self, parts: Sequence[str]) -> str:
        return "an anvil" if any("anvil" in part.casefold() for part in parts) else ""
