"""`sop ui`: the server of the web UI, and the browser that looks at it."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from metaflow_agents.cli.options import WORKSPACE, Workspace

PORT = 8600
_TRIED = 20                         # ports from PORT on, where none is asked for


def ui(run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Open the page of this run.")] = None,
       port: Annotated[int | None, typer.Option(
           "--port", metavar="N", help=f"Port to listen on; by default {PORT}, or the next free one.", min=1, max=65535)] = None,
       host: Annotated[str, typer.Option(
           "--host", metavar="ADDRESS", help="Address to listen on. Other than loopback: others can reach it, unencrypted.")
       ] = "127.0.0.1",
       no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
       workspace: Workspace = WORKSPACE) -> int:
    """Show runs in the browser, live; start, stop, resume and answer them there."""
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.journal.store import unknown_run
    from metaflow_agents.web.serving import serve

    if run is not None and not (path := journal_path(workspace, run)).is_file():
        raise unknown_run(path)
    page = "" if run is None else f"/run/{quote(run)}"
    ports = range(PORT, PORT + _TRIED) if port is None else (port,)
    return serve(workspace, (host, ports), page, browser=not no_browser)
