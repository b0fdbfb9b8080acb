"""What a figure needs and a machine may not have: it is told in the figure's place."""

from __future__ import annotations

import os

from metaflow_agents.sandbox.probe import bubblewrap_holds


class NotMeasured(Exception):
    """A figure can't be measured here; the text says why."""


def sandbox() -> None:
    """Raises NotMeasured where commands can't be confined."""
    found = bubblewrap_holds(os.environ.get("PATH"))
    if found.program is None:
        raise NotMeasured(f"no sandbox holds here: {found.why}")
