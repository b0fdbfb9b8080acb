"""The outside world of the example: five shops and a trade paper at http://127.0.0.1:8771, a price feed with a key at http://127.0.0.1:8772.

usage: python shops.py WEEK          (1 to 5; `curl -X POST http://127.0.0.1:8771/week/3` changes it while it runs)
"""

from __future__ import annotations

import json
import random
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WEB = Path(__file__).parent / "web"
KEY = "wholesale-77f3-kestrel-0192"  # what the feed wants; the run has it in the variable FEED_KEY
NOW = {"week": 1}


class Shop(BaseHTTPRequestHandler):
    """Pages of the week; in week 4 one is down, one is huge, one is junk, one talks to models."""

    def do_POST(self) -> None:
        """Another week."""
        NOW["week"] = int(self.path.rsplit("/", 1)[1])
        self.answer(200, "text/plain", f"week {NOW['week']}\n".encode())

    def do_GET(self) -> None:
        """A page: that of the week, or the latest before it."""
        name = self.path.strip("/").split("/")[0]
        for week in range(NOW["week"], 0, -1):
            folder = WEB / f"week{week}"
            if week == NOW["week"] and (folder / f"{name}.status").exists():
                return self.answer(int((folder / f"{name}.status").read_text()), "text/html", b"<h1>Be back soon</h1>")
            if week == NOW["week"] and (folder / f"{name}.huge").exists():
                return self.answer(
                    200, "text/html", b"<html><body>" + b"<p>Spare part 0815, 1,99 EUR</p>\n" * 600_000 + b"</body></html>"
                )
            if week == NOW["week"] and (folder / f"{name}.junk").exists():
                return self.answer(200, "text/html; charset=utf-8", random.Random(4).randbytes(40_000))
            if (folder / f"{name}.html").exists():
                return self.answer(200, "text/html; charset=utf-8", (folder / f"{name}.html").read_bytes())
        return self.answer(404, "text/html", b"<h1>Not found</h1>")

    def answer(self, status: int, kind: str, data: bytes) -> None:
        """Sends it."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def log_message(self, *_: object) -> None:
        """Silent."""


class Feed(Shop):
    """Prices as JSON, for those who have the key. It is careless, and says the key back."""

    def do_GET(self) -> None:
        """The feed of the week."""
        if self.headers.get("X-Feed-Key") != KEY:
            said = self.headers.get("X-Feed-Key")
            return self.answer(401, "application/json", json.dumps({"error": f"the key {said!r} is not known"}).encode())
        for week in range(NOW["week"], 0, -1):
            file = WEB / f"week{week}" / "feed.json"
            if file.exists():
                value = json.loads(file.read_text(encoding="utf-8"))
                value["account"] = {"key": KEY, "plan": "dealer"}
                return self.answer(200, "application/json", json.dumps(value).encode())
        return None


if __name__ == "__main__":
    NOW["week"] = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", 8772), Feed).serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", 8771), Shop).serve_forever()
