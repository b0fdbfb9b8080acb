"""Export while a run goes on: beside the event loop, in a thread that the run never waits for until it has ended.

The loop hands events over by putting them into a queue, and does nothing else. Where the queue is full, since the collector is
slow or gone, what is missing is read from the journal later.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from metaflow_agents.api.telemetry.exporter import BATCH, Exporter, Tell
from metaflow_agents.api.telemetry.target import Target
from metaflow_agents.errors import raised
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Event
from metaflow_agents.settings import Settings

_MOST = 4096                # events in the queue
_MANY = 2048                # with so many the thread is woken
_SLICE, _BREATH = 100, 0.001        # after so many events the loop gets its turn, so many seconds
_LAST = 5.0                 # seconds for what is left when the run has ended
_LONGEST_PAUSE = 60.0       # between two tries at a collector that is not there


@asynccontextmanager
async def exporting(journal: Journal, target: Target, *, settings: Settings | None = None, tell: Tell = lambda _: None
                    ) -> AsyncIterator[None]:
    """Exports what a run's journal says while this is open: to be entered once the run is, and left once it has ended.

    `tell` is given what a person should know, in the loop. Nothing of what goes wrong here is raised.
    """
    loop = asyncio.get_running_loop()

    def told(text: str) -> None:
        try:
            loop.call_soon_threadsafe(tell, text)
        except RuntimeError:                    # the loop is closed: this thread outlived the run by a hanging request
            pass

    live = Live(journal, target, settings or Settings.read(), told)
    journal.listeners.append(live.hear)
    live.thread.start()
    try:
        yield
    finally:
        journal.listeners.remove(live.hear)
        live.stop()
        await asyncio.to_thread(live.thread.join, _LAST + 1)
        await asyncio.sleep(0)                  # what was told last
        if live.thread.is_alive():
            tell(f"OpenTelemetry: {target.place} is too slow for what was left at the end; `sop export {journal.path.stem} "
                 "--otel URL` sends it")


class Live:
    """The thread, and the queue before it."""

    def __init__(self, journal: Journal, target: Target, settings: Settings, tell: Tell) -> None:
        self._journal, self._target, self._settings, self._tell = journal, target, settings, tell
        self._queue: deque[tuple[int, Event]] = deque()
        self._woken = threading.Event()
        self._deadline = 0.0                    # set once the run has ended
        self.thread = threading.Thread(target=self.run, name="OpenTelemetry", daemon=True)

    def hear(self, number: int, event: Event) -> None:
        """On the loop: one more event is durable."""
        length = len(self._queue)
        if length < _MOST:
            self._queue.append((number, event))
            if length == _MANY:
                self._woken.set()

    def stop(self) -> None:
        """The run has ended: what is left is sent, and then the thread ends."""
        self._deadline = time.monotonic() + _LAST
        self._woken.set()

    def run(self) -> None:
        """What the thread does."""
        try:
            self._export(Exporter(self._journal, self._target, self._settings, self._tell))
        except Exception as error:              # a certificate that can't be read, a damaged journal, a fault of this package
            self._tell(f"OpenTelemetry: nothing more is exported in this run: {raised(error)}")
        finally:
            self._queue = deque(maxlen=0)       # what comes from now on is for nobody

    def _export(self, exporter: Exporter) -> None:
        pause = self._target.delay
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            ended = self._deadline
            if exporter.state == "refused":
                return
            fine = self._caught_up(exporter)
            if ended:
                if fine:
                    exporter.send(self._left(), measured=True)
                return
            fine = fine and exporter.send(self._target.timeout)
            pause = self._target.delay if fine else min(pause * 2, _LONGEST_PAUSE)

    def _caught_up(self, exporter: Exporter) -> bool:
        """Takes in what happened since, and sends a batch whenever there is one. False where the collector does not take it."""
        if exporter.waiting >= BATCH and not exporter.send(self._left()):
            return False
        queue, position = self._queue, exporter.position
        while queue:
            number, event = queue.popleft()
            if number > position + 1 and not self._read(exporter, number - position - 1):
                return False
            if number > exporter.position and not self._taken_in(exporter, number, event):
                return False
            position = exporter.position
        return not self._deadline or self._read(exporter)

    def _read(self, exporter: Exporter, limit: int | None = None) -> bool:
        """Takes in what lies in the journal alone, and not what the queue holds too: to read it takes as long as to export it."""
        return all(self._taken_in(exporter, number, event) for number, event in exporter.unheard(limit))

    def _taken_in(self, exporter: Exporter, number: int, event: Event) -> bool:
        exporter.hear(number, event)
        if not number % _SLICE and not self._deadline:
            time.sleep(_BREATH)
        return exporter.waiting < BATCH or exporter.send(self._left())

    def _left(self) -> float:
        """How long a request may take now."""
        if not self._deadline:
            return self._target.timeout
        return max(min(self._deadline - time.monotonic(), self._target.timeout), 0.1)
