"""The carrier: a small web service on this machine, `python carrier.py`. It prints each shipment that is booked."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

KEY = "let-me-ship-9174"


booked: list[dict] = []


class Carrier(BaseHTTPRequestHandler):
    """Rates for everybody, shipments for those who have the key."""

    def do_GET(self) -> None:
        """What a shipment costs."""
        place = urlsplit(self.path)
        pieces = int(parse_qs(place.query)["pieces"][0])
        self.answer(200, {"price": 4.5 * pieces})

    def do_POST(self) -> None:
        """Books a shipment."""
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self.answer(401, {"error": "who are you?"})
            return
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        booked.append(wanted)
        sys.stdout.write(f"booked {json.dumps(wanted)}\n")
        sys.stdout.flush()
        self.answer(201, {"shipment": f"S-{len(booked)}", "price": 4.5 * wanted["pieces"]})

    def answer(self, status: int, value: dict) -> None:
        """Sends a value as JSON."""
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Only bookings are told."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8799), Carrier).serve_forever()
