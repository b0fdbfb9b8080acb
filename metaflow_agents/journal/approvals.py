"""Which runs were let go without a sandbox on this machine: marks outside of the journal, which anybody may have written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from metaflow_agents.journal.whole import write_whole
from metaflow_agents.schema.event import RunOpened
from metaflow_agents.schema.model import canonical, digest


class Consents:
    """Marks in a folder outside of every workspace; None: there is none, and no run has a mark.

    A mark is named by the digest of the run's first event, with its time, and of the compiled SOP: it holds for the run
    wherever that is moved on this machine, and for its forks, and for no other run and no other SOP.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def has(self, opened: RunOpened, compiled: str) -> bool:
        """Whether it was said here that this run of this compiled SOP (its digest) goes without a sandbox."""
        place = self._place(opened, compiled)
        return place is not None and not os.path.islink(place) and os.path.isfile(place)

    def give(self, opened: RunOpened, compiled: str) -> None:
        """Notes that it was said. `opened` has its time.

        Raises nothing where the mark can't be written, in a container with a home that is read-only: what was said counts now,
        and a resume that misses the mark is refused and asks for the word again.
        """
        place = self._place(opened, compiled)
        if place is None:
            return
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(place, canonical({"run": opened.run, "at": opened.at}), place.with_suffix(".part"))

    def _place(self, opened: RunOpened, compiled: str) -> Path | None:
        if self.folder is None:
            return None
        first = opened.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return self.folder / f"{digest(canonical([first, compiled]))}.json"
