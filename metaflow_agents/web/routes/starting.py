"""Begin, stop, resume and fork runs; uploads; the workspace."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
