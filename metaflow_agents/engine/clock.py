"""Caps on time: how long the activations of a step or a role may still take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from metaflow_agents.errors import BudgetExceeded


class TimeCaps:
    """Wall time during which at least one activation of a scope (`role:x`, `step:y`) was under way, against its cap.

    Parallel activations of a scope share one clock, so that together they never take more than the cap.
    `used` is what earlier processes of the run took, in seconds; `commands` raise a scope's cap; a
    scope without one has its cap in the SOP's file.
    """

    def __init__(self, caps: dict[str, float], used: dict[str, float] | None = None,
                 commands: Mapping[str, str] | None = None) -> None:
        self._caps, self._used, self._commands = caps, dict(used or {}), commands or {}
        self._under_way: dict[str, int] = {}
        self._since: dict[str, float] = {}

    @property
    def any(self) -> bool:
        """Whether there is a cap at all."""
        return bool(self._caps)

    @asynccontextmanager
    async def within(self, scopes: Iterable[str]) -> AsyncIterator[None]:
        """Runs its body at most as long as every scope's cap allows. Raises BudgetExceeded, naming the cap."""
        capped = [scope for scope in scopes if scope in self._caps]
        if not capped:
            yield
            return
        now = asyncio.get_running_loop().time()
        for scope in capped:
            if not self._under_way.get(scope):
                self._since[scope] = now
            self._under_way[scope] = self._under_way.get(scope, 0) + 1
        first = min(capped, key=lambda scope: self._left(scope, now))
        try:
            async with asyncio.timeout(max(self._left(first, now), 0)) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            fix = (f"`{self._commands[first]}` goes on" if first in self._commands else
                   "raise its `budget: {time: …}` in the SOP and go on with `sop resume RUN --accept-changes`")
            raise BudgetExceeded(
                f"the time budget of {first.replace(':', ' ')} is used up: {self._caps[first]:g} s; {fix}") from None
        finally:
            now = asyncio.get_running_loop().time()
            for scope in capped:
                self._under_way[scope] -= 1
                if not self._under_way[scope]:
                    self._used[scope] = self._used.get(scope, 0.0) + now - self._since[scope]

    def _left(self, scope: str, now: float) -> float:
        return self._caps[scope] - self._used.get(scope, 0.0) - (now - self._since[scope])
