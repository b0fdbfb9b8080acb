"""What a person lays down for somebody to remember."""

from __future__ import annotations

from time import time

from metaflow_agents.memory.store import StoredMemory
from metaflow_agents.schema.model import canonical, digest

LONGEST = 20_000                    # characters of a note: prompts show the first of them
MOST_PINS = 20                      # of one owner: all of them stand in each of its prompts


def note(owner: str, text: str, untrusted: str = "", *, pinned: bool = False) -> StoredMemory:
    """A note as the memory file holds it: of no run. `untrusted`: where it came from, if not from whoever lays it down.
    `pinned`: it is recalled always. The same words for the same owner are the same note.
    """
    key = digest(canonical(["note", owner, text.strip()]))[:16]
    return StoredMemory(key, "pin" if pinned else "note", "", "", owner, "", time(), text.strip(), untrusted=untrusted)
