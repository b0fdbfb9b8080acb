"""The shop of the example: what it has left, at http://127.0.0.1:8798/stock.json, until it is ended."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8798
STOCK = {"goods": [{"name": "tea", "left": 2}, {"name": "jam", "left": 9}, {"name": "rum", "left": 0}]}


class Shop(BaseHTTPRequestHandler):
    """Answers with the stock."""

    def do_GET(self) -> None:
        """The one page that there is."""
        body = json.dumps(STOCK).encode()
        self.send_response(200 if self.path == "/stock.json" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
