"""The traffic of this process to its endpoints: who may send next.

Limits hold for an endpoint across all roles of all runs of the process, also of runs in several threads, each with an
event loop of its own. So the queue of an endpoint belongs to the process: a lock guards it, and whoever waits in it is
woken in its own loop. Who comes first goes first; a large request is not overtaken by small ones.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit, urlunsplit

from metaflow_agents.errors import UsageError
from metaflow_agents.models.adapting import Adapted
from metaflow_agents.models.window import RateWindow, WindowEntry
from metaflow_agents.schema.endpoint import EndpointLimits

_PAUSE = 1.0                        # seconds after a refusal that does not say how long
_NEVER = float("inf")


class _Waiter:
    """A request that waits, in the event loop of whoever sends it."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.loop = asyncio.get_running_loop()
        self.granted: asyncio.Future[WindowEntry] = self.loop.create_future()
        self.entry: WindowEntry | None = None         # set under the lane's lock, before its loop hears of it
        self.gone = False
        self.due = _NEVER                       # when it will be woken to look again
        self.timer: asyncio.TimerHandle | None = None

    def tell(self, call: Callable[[], None]) -> bool:
        """Calls it in the waiter's loop. False where that loop is closed."""
        if _running() is self.loop:
            call()
            return True
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:
            return False
        return True

    def grant(self, entry: WindowEntry) -> bool:
        """Lets it go. False where there is nobody any more."""
        self.entry = entry
        return self.tell(lambda: None if self.granted.done() else self.granted.set_result(entry))

    def fail(self, error: Exception) -> None:
        """It can never go."""
        self.gone = True
        self.tell(lambda: None if self.granted.done() else self.granted.set_exception(error))


class Lane:
    """The traffic to one endpoint. `now` gives monotonic seconds; waits are timed by the loops of those who wait."""

    def __init__(self, endpoint: str, now: Callable[[], float]) -> None:
        self._endpoint, self._now = endpoint, now
        self._lock = threading.Lock()
        self._window, self._adapted = RateWindow(), Adapted()
        self._queue: deque[_Waiter] = deque()
        self._held: dict[object, EndpointLimits] = {}   # run → its limits
        self._limits = EndpointLimits()                 # the tightest of them
        self._under_way = 0
        self._paused = -_NEVER                  # nothing goes before this moment

    def hold(self, owner: object, limits: EndpointLimits) -> None:
        """Limits of a run that begins to use the endpoint: the tightest of all runs hold for each of them."""
        with self._lock:
            self._held[owner] = limits
            self._tighten()

    def release(self, owner: object) -> None:
        """That run is over."""
        with self._lock:
            self._held.pop(owner, None)
            self._tighten()

    async def enter(self, tokens: int) -> WindowEntry:
        """Waits until a request of at most `tokens` tokens may go. Raises UsageError where it never may."""
        with self._lock:
            now = self._now()
            if not self._queue and self._when(now, tokens) <= now:
                return self._go(now, tokens)
            waiter = _Waiter(tokens)
            self._queue.append(waiter)
            self._pump()
        try:
            return await waiter.granted
        except BaseException:
            with self._lock:
                waiter.gone = True
                if waiter.entry is not None:    # granted, and cancelled before it could go
                    self._give_back(waiter.entry)
                self._pump()
            raise
        finally:
            if waiter.timer is not None:
                waiter.timer.cancel()

    def leave(self) -> None:
        """A request came back."""
        with self._lock:
            self._under_way -= 1
            self._pump()

    def settle(self, entry: WindowEntry, tokens: int) -> None:
        """What it cost: what was held beyond that is free at once."""
        with self._lock:
            self._window.settle(entry, tokens)
            self._pump()

    def refused(self, entry: WindowEntry, after: float | None) -> None:
        """The endpoint refused it for its rate: nobody sends for as long as it asked, and then fewer."""
        with self._lock:
            now, window = self._now(), self._window
            window.refuse(entry)
            self._adapted.refused(entry.at, now, self._limits.rpm, window.requests - window.refused, window.requests)
            self._paused = max(self._paused, now + (_PAUSE if after is None else max(after, 0.0)))
            window.rest(self._paused)

    def _go(self, now: float, tokens: int) -> WindowEntry:
        self._under_way += 1
        return self._window.take(now, tokens)

    def _give_back(self, entry: WindowEntry) -> None:
        self._under_way -= 1
        self._window.give_back(entry)

    def _when(self, now: float, tokens: int) -> float:
        """When to look again whether a request may go; not after `now` where it may; never where only others can tell."""
        limits = self._limits
        if limits.tpm is not None and tokens > limits.tpm:
            raise UsageError(
                f"a request of up to {tokens:,} tokens never fits `limits: {{tpm: {limits.tpm}}}` of {self._endpoint}: "
                f"raise `tpm`, or lower the model's `max_tokens`")
        if limits.concurrency is not None and self._under_way >= limits.concurrency:
            return _NEVER
        if now < self._paused:
            return self._paused
        return self._window.room(now, tokens, self._adapted.rpm(now, limits.rpm), limits.tpm)

    def _pump(self) -> None:
        """Lets go whoever may, in the order of their coming; the first who may not is woken when that can have changed."""
        while self._queue:
            waiter = self._queue[0]
            if waiter.gone or waiter.loop.is_closed():
                self._queue.popleft()
                continue
            now = self._now()
            try:
                due = self._when(now, waiter.tokens)
            except UsageError as error:         # another run with a tighter limit began meanwhile
                waiter.fail(error)
                continue
            if due > now:
                if due < waiter.due:
                    waiter.due = due
                    waiter.tell(lambda waiter=waiter: self._arm(waiter))      # type: ignore[misc]
                return
            self._queue.popleft()
            entry = self._go(now, waiter.tokens)
            if not waiter.grant(entry):
                self._give_back(entry)

    def _arm(self, waiter: _Waiter) -> None:
        """In the waiter's own loop."""
        if waiter.timer is not None:
            waiter.timer.cancel()
        if not waiter.granted.done():
            waiter.timer = waiter.loop.call_later(max(waiter.due - self._now(), 0.0), self._woken, waiter)

    def _woken(self, waiter: _Waiter) -> None:
        with self._lock:
            waiter.due = _NEVER
            self._pump()

    def _tighten(self) -> None:
        self._limits = tightest(self._held.values())
        self._pump()


class Traffic:
    """The lanes of a process, by endpoint. They outlast runs: the next one finds what the last minute took."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def lane(self, endpoint: str) -> Lane:
        """The lane to an endpoint, by its base URL."""
        name = plain(endpoint)
        with self._lock:
            if name not in self._lanes:
                self._lanes[name] = Lane(name, self._now)
            return self._lanes[name]


PROCESS = Traffic()


def plain(endpoint: str) -> str:
    """An endpoint's base URL in one form: a slash at its end and the case of the host make no difference."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), parts.query, ""))


def tightest(every: Iterable[EndpointLimits]) -> EndpointLimits:
    """The least of each limit; none where nobody gives it."""
    found = list(every)

    def least(measures: Iterable[int | None]) -> int | None:
        return min((one for one in measures if one is not None), default=None)

    return EndpointLimits(rpm=least(one.rpm for one in found), tpm=least(one.tpm for one in found),
                  concurrency=least(one.concurrency for one in found))


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
