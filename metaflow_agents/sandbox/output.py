"""What a command writes to one of its pipes: its beginning is kept, the rest is counted."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

KEPT_BYTES = 1_000_000              # of each output; more is read and dropped, so that the command never waits
_PIECE = 1 << 16
_LARGEST_PIPE = 1 << 20             # what a process without rights can make of one


@dataclass(slots=True)
class Output:
    """The beginning of what was written to one pipe, and how much there was in all, in bytes."""

    kept: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        """One more piece."""
        self.total += len(data)
        self.kept += data[:max(0, KEPT_BYTES - len(self.kept))]

    def read(self, pipe: int) -> bool:
        """One more piece out of a pipe that has something; whether there may be more."""
        try:
            data = os.read(pipe, _PIECE)
        except BlockingIOError:                 # what it had was drained meanwhile
            return True
        self.add(data)
        return bool(data)

    def drain(self, pipe: int) -> None:
        """All that stands in a pipe now, without waiting. Who goes on writing does not keep us."""
        os.set_blocking(pipe, False)
        for _ in range(2 * _LARGEST_PIPE // _PIECE):
            try:
                data = os.read(pipe, _PIECE)
            except BlockingIOError:
                return
            if not data:
                return
            self.add(data)

    def taken(self) -> Output:
        """What there is so far; this one begins anew."""
        taken = Output(self.kept, self.total)
        self.kept, self.total = bytearray(), 0
        return taken
