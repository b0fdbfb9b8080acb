"""How far a run was exported to a collector: a small file beside its journal, so that a resume sends what is missing and no more.

It is written after a collector has taken what it was sent. A kill in between finds the same spans unsent, and sends them again:
with the same ids, times and attributes, byte for byte.
"""

from __future__ import annotations

import json
from pathlib import Path

from metaflow_agents.journal.whole import read_regular, write_whole
from metaflow_agents.texts.strict_json import read

ENDING = ".otel"


class Note:
    """The note of one journal and one collector. `journal` is None for a run in memory, of which nothing is noted."""

    def __init__(self, journal: Path | None, collector: str) -> None:
        self._path = None if journal is None else journal.with_name(journal.name + ENDING)
        self._collector = collector

    def sent(self, trace: bytes) -> int:
        """Number of the event up to which all spans of this trace were taken; 0 where nothing is known."""
        found = self._read().get(self._collector)
        if not isinstance(found, dict) or found.get("trace") != trace.hex() or type(found.get("sent")) is not int:
            return 0
        return max(int(found["sent"]), 0)

    def write(self, trace: bytes, sent: int) -> None:
        """Notes it. Raises OSError."""
        if self._path is not None:
            told = {**self._read(), self._collector: {"trace": trace.hex(), "sent": sent}}
            write_whole(self._path, json.dumps(told).encode(), self._path.with_name(f"{self._path.name}.part"))

    def _read(self) -> dict[str, object]:
        """What stands there. What is no note counts as none: then more is sent than has to be, and nothing is lost."""
        if self._path is None:
            return {}
        try:
            found = read(read_regular(self._path).decode())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
