"""Python's garbage collector, asked less often: what a run makes lives on, and is looked through in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

THRESHOLDS = (50_000, 20, 4)
_LOCK = Lock()
_open = 0
_before: tuple[int, int, int] | None = None


@contextmanager
def seldom_collected() -> Iterator[None]:
    """`THRESHOLDS` while this is open, in this or in any other thread; then those from before.

    A process whose own are higher, or that has switched collections off, keeps what it has. What it sets meanwhile stays.
    """
    global _open, _before
    with _LOCK:
        _open += 1
        if _open == 1 and 0 < gc.get_threshold()[0] < THRESHOLDS[0]:
            _before = gc.get_threshold()
            gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        with _LOCK:
            _open -= 1
            if _open == 0 and _before is not None:
                if gc.get_threshold() == THRESHOLDS:
                    gc.set_threshold(*_before)
                _before = None
