"""How a command without a network of its own reaches the proxy: by sockets that its keeper connected, and by no others.

A listener on this machine's loopback can be reached by everybody on it. So it knows by their port which connections are the
command's, and closes all others.
"""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import suppress

_LOOPBACK = "127.0.0.1"
_PIECE = 1 << 16


class SandboxTunnel:
    """Listens from its making. `proxy`: the path of the proxy's Unix socket."""

    def __init__(self, proxy: str) -> None:
        self._proxy = proxy
        self._server = socket.create_server((_LOOPBACK, 0))
        self._connecting = threading.Lock()
        self._expected: set[int] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def connect(self, theirs: socket.socket) -> int:
        """Connect a socket of the command's; the number of the error, or 0."""
        with self._connecting:
            found = theirs.connect_ex(self._server.getsockname())
            if found in (0, errno.EINPROGRESS):
                self._expected.add(theirs.getsockname()[1])
            return found

    def _accept(self) -> None:
        while True:
            inner, (_, port) = self._server.accept()
            with self._connecting:                  # who is just being connected is known when that is done
                known = port in self._expected
                self._expected.discard(port)
            if not known:
                inner.close()
                continue
            threading.Thread(target=self._join, args=(inner,), daemon=True).start()

    def _join(self, inner: socket.socket) -> None:
        outer = socket.socket(socket.AF_UNIX)
        try:
            outer.connect(self._proxy)
        except OSError:                             # the run has ended its proxy
            inner.close()
            outer.close()
            return
        back = threading.Thread(target=_pump, args=(outer, inner), daemon=True)
        back.start()
        _pump(inner, outer)
        back.join()
        inner.close()
        outer.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """All that comes, until it ends."""
    with suppress(OSError):
        while data := source.recv(_PIECE):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
