"""Whose memories are looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memories are looked at: those of a role (None: of all), of other runs than `run`, and these of its own.

    `own`: numbers of memories of the run itself that are seen, in their order; they count as newer than all others.
    `others`: whether those of other runs are seen at all; those that are a run's alone never are. `lessons`: only lessons are
    seen, which no other scope sees.
    """

    role: str | None = None
    run: str = ""
    own: tuple[int, ...] = ()
    others: bool = True
    lessons: bool = False

    def where(self) -> tuple[str, dict[str, Any]]:
        """The condition on a row `m`, and its values."""
        own = "m.seq IN (SELECT value FROM json_each(:own))"
        # Each alone where it can be: of both together SQLite reads all memories.
        among = own if not self.others else f"({self._others} OR {own})" if self.own else self._others
        return f"({self.kind} AND {among})", {"role": self.role, "run": self.run, "own": json.dumps(self.own)}

    @property
    def kind(self) -> str:
        """The condition on what kind of memory a row is."""
        return "m.kind = 'lesson'" if self.lessons else "m.kind != 'lesson'"

    @property
    def _others(self) -> str:
        role = " AND m.role = :role" if self.role is not None else ""
        return f"(m.run != :run AND NOT m.apart{role})"
