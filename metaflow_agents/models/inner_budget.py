"""The caps on a sub-SOP: its own, inside of those of the step that it is and of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from metaflow_agents.models.budget import Budgets


class Held(Protocol):
    """What is held for one call until it is settled."""

    def settle(self, tokens: int, calls: int | None = None, cost: int = 0) -> None:
        """See `Reservation`."""
        ...


@dataclass(frozen=True, slots=True)
class _Both:
    outer: Held
    own: Held

    def settle(self, tokens: int, calls: int | None = None, cost: int = 0) -> None:
        self.own.settle(tokens, calls, cost)
        self.outer.settle(tokens, calls, cost)


class InnerBudgets:
    """Holds a call's worst case in both: first outside, as spent by the step, then inside, by its own role and step.

    Who waits inside waits for calls that hold both and will release both, so that the two never wait for each other.
    """

    def __init__(self, own: Budgets, outer: Budgets | InnerBudgets, step: str) -> None:
        self._own, self._outer, self._step = own, outer, step

    @asynccontextmanager
    async def reserve(self, role: str, step: str, tokens: int, calls: int = 1, cost: int = 0) -> AsyncIterator[Held]:
        """See `Budgets`."""
        async with self._outer.reserve("", self._step, tokens, calls, cost) as outer:
            granted = False
            try:
                async with self._own.reserve(role, step, tokens, calls, cost) as own:
                    granted = True
                    yield _Both(outer, own)
            finally:
                if not granted:
                    outer.settle(0, calls=0)            # it never went out
