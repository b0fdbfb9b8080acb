"""What was found: faults by the name of their kind, pages that were served, what was tried, and what could not be."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FAULTS, SHOWN, PAGES = 30, 700, 1_000_000
"""Faults that are told, characters of the reason of one, and of all pages together."""
TRACEBACK = "Traceback (most recent call last)"
SECONDS = 420
"""The time for all that is tried."""


@dataclass
class Findings:
    """Of one product. A fault is `{kind, place, why}`; `pages`: path → what was served there; `left_out`: what could not be
    tried, and why; `sights`: of pages, with their `path`, what a browser shows (`browse.py`).
    """

    faults: list[dict[str, str]] = field(default_factory=list)
    pages: dict[str, str] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    sights: list[dict[str, Any]] = field(default_factory=list)
    _over: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    @property
    def time_is_up(self) -> bool:
        """Whether nothing more is begun."""
        return time.monotonic() > self._over

    def fault(self, kind: str, place: str, why: str) -> None:
        """Tells one fault, once."""
        one = {"kind": kind, "place": place, "why": why if len(why) <= SHOWN else f"{why[:SHOWN]} […]"}
        if one not in self.faults and len(self.faults) < FAULTS:
            self.faults.append(one)

    def page(self, path: str, text: str) -> None:
        """Keeps a page, as far as there is room."""
        left = PAGES - sum(map(len, self.pages.values()))
        if left > 0:
            self.pages[path] = text[:left]

    def trying(self, what: str, action: Callable[[], None]) -> None:
        """Tries one thing. What goes wrong in the trying itself is told as left out, and the others are tried all the same."""
        if self.time_is_up:
            self.left_out.append(f"{what}: the time was over")
            return
        try:
            action()
        except Exception as error:                              # a product may do what nobody here has thought of
            self.left_out.append(f"{what}: {type(error).__name__}: {error}"[:SHOWN])


def crashed(text: str) -> bool:
    """Whether an output shows a traceback. That of a pipe that `head` has closed depends on the moment, and is none."""
    before, found, last = text.rpartition(TRACEBACK)
    return bool(found) and (TRACEBACK in before or not re.search(r"^BrokenPipeError\b", last, re.MULTILINE))


def end_of(text: str) -> str:
    """The last lines of an output, on one line."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-3:])[-400:]
