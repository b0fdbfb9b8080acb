"""No regular expression of the package stands still on a text that was made for it."""

from __future__ import annotations

import gc
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import metaflow_agents
from tests.pumped import Written, pumps, written

LENGTH = 60_000                     # characters: linear time is milliseconds, quadratic time is many seconds
STANDSTILL = 0.5                    # seconds of this process: a busy machine does not count
BOUNDED = {
    "agent/continuing.py": "it has matched at the begin of the text before",
    "inputs.py": "a path is at most 1,000 bytes long",
    "models/dry.py": "a pattern of paths is as long as a path may be",
    "models/endpoint/waits.py": "200 characters of a time",
    "prompts/habits.py": "2,000 characters of an expression",
    "quotations/normal.py": "runs of white space were made one space before",
    "research/page.py": "a citation is at most 200 characters long",
    "schema/quantity.py": "what a pattern of linear time has taken whole",
}
"""Modules with a pattern of quadratic time, and what bounds its text."""


class _TooLong(Exception):
    pass


def _raise(*_: object) -> None:
    raise _TooLong


def slowest(one: Written) -> tuple[float, str]:
    """(seconds, begin of the text) of the text that took longest, or of the first that took too long."""
    worst = (0.0, "")
    for text in pumps(one.pattern, LENGTH):
        for method in one.methods:
            use = getattr(one.pattern, method)
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, STANDSTILL)
            try:
                found = use("", text) if method in ("sub", "subn") else use(text)
                if method == "finditer":
                    list(found)
            except _TooLong:
                return STANDSTILL, f"{method} of {text[:30]!r}"
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            worst = max(worst, (time.process_time() - begun, f"{method} of {text[:30]!r}"))
    return worst


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    """Without collections of garbage: hypothesis has a callback in each, and what is raised there is swallowed."""
    before = signal.signal(signal.SIGVTALRM, _raise)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.slow
def test_no_pattern_stands_still() -> None:
    slow = {}
    found = list(written(Path(metaflow_agents.__file__).parent))
    for one in found:
        seconds, how = slowest(one)
        if seconds >= STANDSTILL:
            slow[one.place] = f"{one.pattern.pattern}: {how}"
    modules = {place.rpartition(":")[0] for place in slow}
    assert len(found) > 200
    assert {place: what for place, what in slow.items() if place.rpartition(":")[0] not in BOUNDED} == {}
    assert modules == set(BOUNDED), "what is no longer slow needs no reason"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pattern", [r"a\s*b\s*$|\s+x", r"\bfor\b.*\bin\b", r"(\d+)\s*([a-z]+)", r"\{\{.*?\}\}"])
def test_a_slow_pattern_is_found(pattern: str) -> None:
    assert slowest(Written("here", re.compile(pattern, re.DOTALL), ("findall",)))[0] > 0.1
