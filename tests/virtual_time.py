"""A real asyncio event loop under simulated time: where nothing is left to do now, the clock jumps to what comes next."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout is None:
            raise AssertionError("everybody waits, and nothing will ever wake them")
        if not found and timeout is not None:
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `time()` is simulated; it begins at 0."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def simulated(main: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end under simulated time, which takes as long as the work in it and no longer."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
