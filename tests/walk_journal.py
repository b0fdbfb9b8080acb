"""What a run did, for comparison: its events, free of times, of fingerprints and of the SOP's own text."""

from __future__ import annotations

import re
from typing import Any

from metaflow_agents.journal.journal import Journal

RECORDED = {"sop", "compiled", "sources", "entry", "location", "functions"}     # what the journal holds of the SOP's own text
MEASURED = {"at", "seconds", "rested"}
FINGERPRINTS = {"digest", "parts", "chain", "cites"}                # they change with the SOP's text, whatever it does
MEMORIES = re.compile(r'"key":"[0-9a-f]{16}"')                      # another one in each run
STORED = {"payload", "request", "reply", "asked", "answered", "question", "answer"}       # digests of what is compared itself


def told(journal: Journal) -> list[Any]:
    """The events with what they name by digest."""
    return [_told(event.model_dump(mode="json", by_alias=True), journal) for _, event in journal.events()]


def _told(value: Any, journal: Journal, key: str = "") -> Any:
    if isinstance(value, dict):
        dropped = MEASURED | FINGERPRINTS | (RECORDED if value.get("kind") in ("run_opened", "resumed") else set())
        return {name: _told(inner, journal, name) for name, inner in value.items() if name not in dropped}
    if isinstance(value, list):
        return [_told(one, journal, key) for one in value]
    if key in STORED and isinstance(value, str):
        return MEMORIES.sub('"key":"of a memory"', journal.blob(value).decode())
    return value
