"""A thread that notices when an event loop stands still, and says where: one line for each place, and not often.

It asks each loop four times a second to answer. What keeps the interpreter's lock (a search of `re`, a parser in C) keeps this
thread too; it is told when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

LIMIT_SECONDS = 1.0
"""A loop may stand still so long before it is told."""
_TICK = 0.25
_AGAIN_SECONDS = 60.0               # until the same place is told again
_LASTS_SECONDS = 30.0               # a standstill that lasts is told while it does
_LOG = logging.getLogger("metaflow_agents")
_PACKAGE = str(Path(__file__).parent)
_LIBRARY = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen")


class Watch:
    """One loop that is watched, by all that asked for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.thread, self.users = loop, threading.get_ident(), 1
        self._asked = time.monotonic()
        self._answered = True
        self._since: float | None = None            # of a standstill that was noticed
        self._place = ""
        self._said: dict[str, float] = {}
        self._otherwise: tuple[float, Callable[[], None]] | None = None

    def unless_heard(self, seconds: float, otherwise: Callable[[], None]) -> None:
        """`otherwise()`, in the watchdog's thread, if the loop does not turn within so many seconds. For signal handlers too."""
        self._otherwise = (time.monotonic() + seconds, otherwise)
        with suppress(RuntimeError):                # the loop is closed
            self.loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._otherwise = None

    def _answer(self) -> None:
        self._answered = True

    def look(self, slept: float, worked: float) -> None:
        """One look, `slept` seconds after the last one; the process had `worked` seconds of processor time in them."""
        now = time.monotonic()
        if self._otherwise is not None and now >= self._otherwise[0]:
            self._otherwise[1]()
            self._otherwise = None
        if self._answered:
            self._tell_end(now)
            self._asked, self._answered = now, False
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._answer)
        elif slept > 4 * _TICK and worked < slept / 4:
            self._asked = now                       # the whole process stood still: it was stopped, or the machine slept
        elif self._since is None and now - self._asked > LIMIT_SECONDS:
            self._since, self._place = self._asked, place_of(sys._current_frames().get(self.thread))
        elif self._since is not None and now - self._since > _LASTS_SECONDS:
            self._tell(f"the event loop stands still since {now - self._since:.0f} s in {self._place}", now)

    def _tell_end(self, now: float) -> None:
        if self._since is not None:
            self._tell(f"the event loop stood still for {now - self._since:.1f} s in {self._place}", now)
            self._since = None

    def _tell(self, message: str, now: float) -> None:
        if now - self._said.get(self._place, float("-inf")) >= _AGAIN_SECONDS:
            self._said[self._place] = now
            _LOG.warning("%s", message)


def place_of(frame: FrameType | None) -> str:
    """`documents/markup.py:41 (read)`: the innermost line that is not of Python's own library."""
    found = frame
    while found is not None and found.f_code.co_filename.startswith(_LIBRARY):
        found = found.f_back
    found = found or frame
    if found is None:
        return "a thread that has ended"
    path = found.f_code.co_filename
    shown = path[len(_PACKAGE) + 1:] if path.startswith(_PACKAGE) else path.rpartition("/")[2]
    return f"{shown}:{found.f_lineno} ({found.f_code.co_name})"


_WATCHED: dict[asyncio.AbstractEventLoop, Watch] = {}
_LOCK = threading.Lock()
_thread: threading.Thread | None = None


@contextmanager
def watched() -> Iterator[Watch]:
    """The running loop is watched while this is open."""
    global _thread
    loop = asyncio.get_running_loop()
    with _LOCK:
        watch = _WATCHED.get(loop)
        if watch is None:
            watch = _WATCHED[loop] = Watch(loop)
        else:
            watch.users += 1
        if _thread is None or not _thread.is_alive():           # it ends with the last loop, and does not survive a fork
            _thread = threading.Thread(target=_look_on, name="watchdog", daemon=True)
            _thread.start()
    try:
        yield watch
    finally:
        with _LOCK:
            watch.users -= 1
            if not watch.users:
                del _WATCHED[loop]


def _look_on() -> None:
    global _thread
    at, worked = time.monotonic(), time.process_time()
    while True:
        time.sleep(_TICK)
        before, at = at, time.monotonic()
        worked_before, worked = worked, time.process_time()
        with _LOCK:
            watches = list(_WATCHED.values())
            if not watches:
                _thread = None
                return
        for watch in watches:
            watch.look(at - before, worked - worked_before)
