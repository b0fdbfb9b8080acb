"""What a run made, said and cost: read-only views."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
