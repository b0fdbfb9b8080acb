"""The depot: a web service on loopback, one request after the other. `crash_depot.py OUTSIDE` prints its port first.

A connection is served whole before the next is looked at: who asks `/quiet` is answered once nothing is under way any more.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Depot(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/quiet":
            noted("depot.find", self.path.rpartition("/")[2])
        self.tell(200, {"is": "known"})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) == length:                 # who sends half a request and dies has sent nothing
            given = json.loads(body)
            noted("depot.send", given["id"], given.get("to", ""))
            self.tell(201, {"sent": given["id"]})

    def tell(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            pass                                # the run was killed while it waited

    def log_message(self, *_: Any) -> None:
        pass


def noted(*words: str) -> None:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, " ".join(words).encode() + b"\n")
    os.close(file)


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Depot) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()
