"""The server as a process: its socket, the address that is printed and opened, and its end."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path
from threading import Thread

import uvicorn

from metaflow_agents.cli.output import say
from metaflow_agents.errors import UsageError
from metaflow_agents.web.app import application
from metaflow_agents.web.command import PORT
from metaflow_agents.web.site import Site

_TRIED = 20                         # ports from PORT on, where none is asked for


def serve(workspace: Path, host: str, port: int | None, page: str, *, browser: bool) -> int:
    """Serves until it is interrupted. `page`: what follows `#` in the address. Raises UsageError where no port is free."""
    listening = _listening(host, port)
    site = Site(workspace, Path.cwd(), listening.getsockname()[1], host)

    def address(token: str) -> str:
        return f"{site.origin}/#{page}{'?' if page else ''}token={token}"

    first = address(site.sessions.issue())
    say([f"sop ui: {first}", "  this address works once; Ctrl-C ends the server, and runs go on"])
    if host not in ("127.0.0.1", "localhost", "::1"):
        say([f"  it listens on {host}: who reaches it sees what is sent, which is not encrypted"])
    site.sessions.announce = lambda token: say([f"  for another browser: {address(token)}"])
    if browser:
        Thread(target=webbrowser.open, args=(first,), daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(
        application(site), log_config=None, access_log=False, server_header=False, date_header=False, lifespan="off", ws="none",
        http="h11", loop="asyncio", timeout_graceful_shutdown=1, h11_max_incomplete_event_size=64 << 10))
    server.run(sockets=[listening])
    return 0


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket that listens there. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = range(PORT, PORT + _TRIED) if port is None else (port,)
    for number in tried:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
            found.listen(128)
            return found
        except OSError as error:
            found.close()
            why = error.strerror or str(error)
    places = f"port {port}" if port is not None else f"ports {PORT} to {PORT + _TRIED - 1}"
    raise UsageError(f"can't listen on {host}, {places}: {why}; `--port N` takes another one")
