"""How much one evaluation or rendering may do: steps and characters are counted, so that every template ends soon.

Time is not measured: an outcome must not depend on the machine. A *step* is an item of a loop, a printed part, an
operation, a call, or a node of a list or mapping that is built or written as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from metaflow_agents.errors import ExpressionError

MAX_STEPS = 300_000
MAX_TEXT = 4 * 1024 * 1024          # characters of one rendered text, and of any text built on the way
MAX_WORK = 4 * MAX_TEXT             # characters built in all, thrown away ones included
MAX_RANGE = 100_000
MAX_NESTING = 400                   # lists and mappings inside of each other, in a value that is printed or handed on
MAX_BITS = 4096                     # of a whole number
MAX_SOURCE = 256 * 1024             # characters of a template
MAX_EXPRESSION = 64 * 1024          # characters of an expression
MAX_TOKENS = 8_000                  # names, signs and texts of a template or an expression: to compile them takes half a second


class Meter:
    """What one evaluation has used."""

    __slots__ = ("characters", "steps")

    def __init__(self) -> None:
        self.steps = self.characters = 0


_METER: ContextVar[Meter] = ContextVar("meter")


@contextmanager
def metered() -> Iterator[Meter]:
    """One evaluation or rendering: everything inside is counted together."""
    meter = Meter()
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def spend(steps: int) -> None:
    """Count steps. Raises ExpressionError past the bound."""
    meter = _METER.get()
    meter.steps += steps
    if meter.steps > MAX_STEPS:
        raise ExpressionError(f"this takes more than {MAX_STEPS:,} steps; fix: loop over less, or prepare the data in a step")


def spend_text(length: int) -> None:
    """Count the characters of a text before it is built. Raises ExpressionError past the bound."""
    meter = _METER.get()
    meter.steps += 1
    meter.characters += length
    if length > MAX_TEXT or meter.characters > MAX_WORK or meter.steps > MAX_STEPS:
        if meter.steps > MAX_STEPS:
            spend(0)
        raise ExpressionError(f"this makes a text of more than {MAX_TEXT // 2**20} MiB; fix: put less into it")
