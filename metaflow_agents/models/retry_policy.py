"""How often a call is tried over the wire, and how long is waited in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """`tries` at a call at most; waits double from `first` seconds up to `longest`, each shortened at random by up to half.

    Where an endpoint says how long to wait, that is waited instead, up to `asked` seconds; one that asks for more stops
    the run, which can be resumed later. `sleep` takes seconds; tests put a clock of their own here.
    """

    tries: int = 6
    first: float = 0.5
    longest: float = 30.0
    asked: float = 300.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def pause(self, failed: int, after: float | None) -> float:
        """Seconds between the failed try number `failed` (from 0) and the next; `after`: what the endpoint asked for."""
        return min(self.first * 2**failed, self.longest) * random.uniform(0.5, 1.0) if after is None else after
