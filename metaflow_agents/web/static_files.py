"""The pages: files of this package alone, by a list of what there is. No path of a request reaches the file system."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from metaflow_agents.web.replies import refusal

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml",
         ".txt": "text/plain", ".woff2": "font/woff2", ".ico": "image/x-icon", ".png": "image/png"}


class Pages:
    """ASGI application over a folder; `/` is its `index.html`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the file that the path names."""
        answer = await run_in_threadpool(self._answer, Request(scope))
        await answer(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        name = request.url.path.lstrip("/") or "index.html"
        file = self._files().get(name)
        if file is None:
            return refusal(f"there is no page /{name[:200]}", 404)
        if request.method not in ("GET", "HEAD"):
            return refusal(f"/{name} is read only", 405)
        data = file.read_bytes()
        mark = f'"{sha256(data).hexdigest()[:32]}"'
        headers = {"ETag": mark, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=TYPES[file.suffix])

    def _files(self) -> dict[str, Path]:
        """Path as addresses have it → file; looked at anew, since pages are edited while a server runs."""
        return {path.relative_to(self._folder).as_posix(): path for path in self._folder.rglob("*") if path.suffix in TYPES}
