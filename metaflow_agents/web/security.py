"""The guard before every request: a page of somebody else's that is open in the same browser gets nothing and changes nothing.

Checked, in this order: `Host` (DNS rebinding), `Sec-Fetch-Site` and `Origin` (requests of other sites), the method, the type of
what is sent (a form of another site sends neither JSON nor an octet stream), its length, and the session. There are no sockets.
Sources: https://owasp.org/www-project-top-ten/, https://www.w3.org/TR/fetch-metadata/, https://www.w3.org/TR/CSP3/
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from metaflow_agents.web.replies import refusal
from metaflow_agents.web.site import Site

MOST_JSON = 1 << 20
MOST_UPLOAD = 64 << 20
UPLOAD = "/api/upload"
OPEN = ("/api/session",)            # of what lies under /api/: without a session
FRAME = "/frame"
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
          "frame-src 'self' blob: data: about:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
          "require-trusted-types-for 'script'; trusted-types sop-artifact")
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request pass, or refuses it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":                     # a web socket: there is none, from nobody
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        found = _fault(self._site, scope)
        if found is not None:
            status, why = found
            await refusal(why, status)(scope, receive, guarded)
            return
        await self._app(scope, _bounded(scope, receive), guarded)


def _fault(site: Site, scope: Mapping[str, Any]) -> tuple[int, str] | None:
    """Status and words of a request that is refused."""
    headers, path, method = Headers(raw=scope["headers"]), scope["path"], scope["method"]
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not site.serves(hosts[0]):
        return 421, f"this server is called {site.origin}, not {' '.join(hosts)[:200]!r}"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return 403, "a page of another site asks: open this one by its own address"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{hosts[0]}":
        return 403, f"a page of {origin[:200]!r} asks, which is another site"
    if method not in ("GET", "HEAD", "POST"):
        return 405, f"the method {method[:20]} is none of this server's: GET and POST are"
    if method == "POST" and (fault := _fault_of_change(headers, path)) is not None:
        return fault
    if path == FRAME and headers.get("sec-fetch-dest", "iframe") != "iframe":
        return 403, "this page stands in a frame of a run's page alone"
    if path not in OPEN and (path == FRAME or path.startswith("/api/")) and not _in_session(site, headers):
        return 401, "no session: open the address that `sop ui` printed last, which works once"
    return None


def _fault_of_change(headers: Headers, path: str) -> tuple[int, str] | None:
    if headers.get("origin") is None:
        return 403, "a request that changes something says where it comes from (`Origin`)"
    wanted = "application/octet-stream" if path == UPLOAD else "application/json"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
        return 415, f"what is sent to {path} is {wanted}"
    if headers.get("content-encoding", "identity") != "identity":
        return 415, "what is sent is not packed"
    most, length = _most(path), headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        return 413, f"what is sent has {most:,} bytes at most"
    return None


def _most(path: str) -> int:
    return MOST_UPLOAD if path == UPLOAD else MOST_JSON


def _in_session(site: Site, headers: Headers) -> bool:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return False
    found = cookies.get(site.cookie)
    return found is not None and site.sessions.holds(found.value)


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """The body, broken off where it is longer than it may be: `Content-Length` may be missing."""
    left = _most(scope["path"])

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                return {"type": "http.disconnect"}
        return message

    return bounded
