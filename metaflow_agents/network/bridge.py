"""Runs inside the sandbox: what connects to its loopback is passed on to the proxy's Unix socket, which lies in the parent.

    python bridge.py SOCKET PORT [READY_FD]

Listens on 127.0.0.1:PORT (0: one that is free), then writes the port and a line break to READY_FD, and nothing more, there or
as an error. Ends with the process that started it. Of the standard library alone, in one thread: inside there is nothing else,
and few processes.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
from contextlib import suppress

_CHUNK = 65536
_CONNECTIONS = 64                   # at once; more wait to be accepted
_PR_SET_PDEATHSIG = 1               # linux/prctl.h
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class _Way:
    """One direction of a connection: what was read of `source` and not yet written to `sink`."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.held = b""
        self.ended = self.done = False

    def move(self) -> None:
        """Moves what can be moved now. Raises OSError where a side has broken."""
        with suppress(BlockingIOError):
            if not self.held and not self.ended:
                self.held = self.source.recv(_CHUNK)
                self.ended = not self.held
        with suppress(BlockingIOError):
            if self.held:
                self.held = self.held[self.sink.send(self.held):]
        if self.ended and not self.held and not self.done:
            self.done = True
            self.sink.shutdown(socket.SHUT_WR)


class _Pair:
    """One connection: a side inside, and a side to the proxy."""

    def __init__(self, inside: socket.socket, outside: socket.socket) -> None:
        self.sides = (inside, outside)
        self.ways = (_Way(inside, outside), _Way(outside, inside))
        for side in self.sides:
            side.setblocking(False)

    def move(self) -> bool:
        """Whether anything is left to move."""
        try:
            for way in self.ways:
                way.move()
        except OSError:
            return False
        return not all(way.done for way in self.ways)

    def wanted(self, side: socket.socket) -> int:
        """What to wait for at this side."""
        events = 0
        for way in self.ways:
            if way.source is side and not way.held and not way.ended:
                events |= _READ
            if way.sink is side and way.held:
                events |= _WRITE
        return events


class Bridge:
    """Listens and passes on, until it is ended from outside."""

    def __init__(self, path: str, port: int) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, _READ)
        self._pairs: dict[socket.socket, _Pair] = {}
        self.port: int = self._listener.getsockname()[1]

    def run(self) -> None:
        """Never returns."""
        while True:
            for pair in self._ready():
                if pair.move():
                    self._wait(pair)
                else:
                    self._close(pair)

    def _ready(self) -> set[_Pair]:
        found = set()
        for key, _ in self._selector.select():
            if key.fileobj is self._listener:
                found |= self._accepted()
            else:
                found.add(key.data)
        return found

    def _accepted(self) -> set[_Pair]:
        try:
            inside, _ = self._listener.accept()
        except OSError:             # it hung up before its turn
            return set()
        outside = socket.socket(socket.AF_UNIX)
        try:
            outside.connect(self._path)
        except OSError:             # the proxy is gone: so is this connection
            inside.close()
            outside.close()
            return set()
        pair = _Pair(inside, outside)
        self._pairs |= dict.fromkeys(pair.sides, pair)
        self._listen()
        return {pair}

    def _wait(self, pair: _Pair) -> None:
        for side in pair.sides:
            self._set(side, pair.wanted(side), pair)

    def _close(self, pair: _Pair) -> None:
        for side in pair.sides:
            self._set(side, 0, pair)
            self._pairs.pop(side, None)
            side.close()
        self._listen()

    def _listen(self) -> None:
        self._set(self._listener, _READ if len(self._pairs) < 2 * _CONNECTIONS else 0, None)

    def _set(self, side: socket.socket, events: int, pair: _Pair | None) -> None:
        known = side in self._selector.get_map()
        if known and events:
            self._selector.modify(side, events, pair)
        elif known:
            self._selector.unregister(side)
        elif events:
            self._selector.register(side, events, pair)


def die_with_parent() -> None:
    """Has the kernel end this process when its parent ends (prctl(2)); at once, where that has happened already."""
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def main(arguments: list[str]) -> None:
    """See the module. Exits with 1 and a line on how it is used where that is wrong."""
    if len(arguments) not in (2, 3) or not all(each.isdigit() for each in arguments[1:]):
        sys.exit("usage: python bridge.py SOCKET PORT [READY_FD]")
    die_with_parent()
    bridge = Bridge(arguments[0], int(arguments[1]))
    if len(arguments) == 3:
        ready = int(arguments[2])
        os.write(ready, f"{bridge.port}\n".encode())
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for each in (ready, 2):
            os.dup2(nowhere, each)
    bridge.run()


if __name__ == "__main__":
    main(sys.argv[1:])
