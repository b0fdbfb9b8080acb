"""A water tank to try `ooda.yaml` on: `python tank.py [PORT [SECONDS]]` serves it on this machine until it is interrupted.

At each tick of its clock the level changes by what flows in and out, and after some ticks rain turns into drought. A tick takes
so many seconds; without them each look is a tick.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

ACTS = {"drain": "takes 20 out at once", "fill": "adds 20 at once", "open": "the outlet takes 4 more a tick",
        "close": "the outlet takes 4 less a tick"}


class Tank:
    """The level in litres, what flows in and out a tick, the ticks that it rains, and the seconds of a tick (0: a look)."""

    def __init__(self, level: float = 70.0, inflow: float = 6.0, rain: int = 6, seconds: float = 0.0) -> None:
        self.level, self.inflow, self.outflow, self.rain, self.tick = level, inflow, 0.0, rain, 0
        self.seconds, self._began = seconds, time.monotonic()
        self.acts: list[str] = []
        self._lock = Lock()

    def look(self) -> dict[str, Any]:
        """What is so now."""
        with self._lock:
            now = int((time.monotonic() - self._began) / self.seconds) if self.seconds else self.tick + 1
            while self.tick < now:
                self.tick += 1
                self.level = max(self.level + (self.inflow if self.tick <= self.rain else 0.0) - self.outflow - 1, 0.0)
            inflow = self.inflow if self.tick <= self.rain else 0.0
            return {"numbers": {"level": self.level, "inflow": inflow, "outflow": self.outflow + 1}, "acts": ACTS}

    def do(self, act: str) -> None:
        """Does one of its acts."""
        with self._lock:
            self.acts.append(act)
            self.level = max(self.level + {"drain": -20.0, "fill": 20.0}.get(act, 0.0), 0.0)
            self.outflow = max(self.outflow + {"open": 4.0, "close": -4.0}.get(act, 0.0), 0.0)


def serving(tank: Tank, port: int = 0) -> ThreadingHTTPServer:
    """A server of a tank on this machine, not yet begun."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, tank.look())

        def do_POST(self) -> None:
            try:
                act = json.loads(self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1000)))["act"]
            except (ValueError, KeyError, TypeError):
                act = None
            if act not in ACTS:
                return self._say(400, {"error": f"act: one of {', '.join(ACTS)}"})
            tank.do(act)
            self._say(200, {})

        def _say(self, status: int, value: Any) -> None:
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed for a request."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Serves a tank until it is interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("port", type=int, nargs="?", default=8000, help="8000 by default; 0: any that is free")
    parser.add_argument("seconds", type=float, nargs="?", default=0.0, help="of a tick; by default each look is one")
    given = parser.parse_args()
    try:
        server = serving(Tank(seconds=given.seconds), given.port)
    except (OSError, OverflowError) as error:
        parser.error(f"port {given.port} can't be served ({error}): give another one")
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
