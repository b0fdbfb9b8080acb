"""A terminal that several read from, one at a time: models that a person plays, and questions to that person."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable
from functools import lru_cache


class Terminal:
    """Lines typed at a file descriptor. Who shows something and waits for what is typed holds `turn` meanwhile."""

    def __init__(self, file: int) -> None:
        self._file = file
        self.turn = asyncio.Lock()
        self._rest = b""                # what was pasted behind the end of an answer belongs to the next one

    def forget(self) -> None:
        """Drops what was typed before now: it was meant for something else than what is about to be shown."""
        self._rest = b""
        if os.isatty(self._file):
            termios.tcflush(self._file, termios.TCIFLUSH)

    async def line(self) -> bytes:
        """One line as it comes; empty at Ctrl-D. It waits for the terminal and not in a thread, so that it can be stopped."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._rest:
            ready = loop.create_future()
            loop.add_reader(self._file, _once(ready))
            try:
                await ready
            finally:
                loop.remove_reader(self._file)
            data = os.read(self._file, 65536)
            if not data:
                line, self._rest = self._rest, b""
                return line
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"


@lru_cache(maxsize=1)
def standard_input(file: int = 0) -> Terminal:
    """The terminal of this process, the same for all who ask there."""
    return Terminal(file)


def _once(ready: asyncio.Future[None]) -> Callable[[], None]:
    def tell() -> None:
        if not ready.done():
            ready.set_result(None)
    return tell
