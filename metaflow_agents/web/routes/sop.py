"""The page of a SOP: text, graph, checks, edits."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
