"""The application: the guard, the routes of each module, the pages."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount

from metaflow_agents.web.routes import frame, inbox, memory, reading, runs, session, sop, starting
from metaflow_agents.web.security import Guard
from metaflow_agents.web.site import Site
from metaflow_agents.web.static_files import Pages

STATIC = Path(__file__).parent / "static"
MODULES = (session, runs, inbox, starting, reading, memory, sop, frame)


def application(site: Site) -> Starlette:
    """The server's ASGI application."""
    routes: list[BaseRoute] = [route for module in MODULES for route in module.routes]
    app = Starlette(routes=[*routes, Mount("/", Pages(STATIC))], middleware=[Middleware(Guard, site=site)])
    app.state.site = site
    return app
