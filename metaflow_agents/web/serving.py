"""The server as a process: its socket, the address that is printed and opened, and its end."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType

import uvicorn

from metaflow_agents.cli.output import flush, say
from metaflow_agents.errors import UsageError
from metaflow_agents.web.app import application
from metaflow_agents.web.site import Site


def serve(workspace: Path, where: tuple[str, Sequence[int]], page: str, *, browser: bool) -> int:
    """Serves until it is interrupted. `where`: the address, and ports there, of which the first free one is taken; `page`: what
    follows `#` in the address of the page. Raises UsageError where no port is free.
    """
    host = where[0]
    listening = _listening(*where)
    site = Site(workspace, Path.cwd(), listening.getsockname()[1], host)

    def address(token: str) -> str:
        return f"{site.origin}/#{page}{'?' if page else ''}token={token}"

    def told(*lines: str) -> None:
        say(lines)
        flush()                         # who reads it by a pipe waits for the address

    first = address(site.sessions.issue())
    told(f"sop ui: {first}", "  this address works once; Ctrl-C ends the server, and runs go on")
    if host not in ("127.0.0.1", "localhost", "::1"):
        told(f"  it listens on {host}: who reaches it sees what is sent, which is not encrypted")
    site.sessions.announce = lambda token: told(f"  for another browser: {address(token)}")
    with suppress(KeyboardInterrupt):
        if browser:
            Thread(target=webbrowser.open, args=(first,), daemon=True).start()
        site.uploads.sweep()
        Thread(target=site.listing.update, daemon=True).start()     # who opens the page finds the rows made
        _Server(site, uvicorn.Config(
            application(site), log_config=None, access_log=False, server_header=False, date_header=False, proxy_headers=False,
            lifespan="off", ws="none", http="h11", loop="asyncio", timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=64 << 10)).run(sockets=[listening])
    return 0


class _Server(uvicorn.Server):
    """Ends when it is interrupted, although streams are open."""

    def __init__(self, site: Site, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._site = site

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by signals."""
        self._site.closing = True
        super().handle_exit(sig, frame)


def _listening(host: str, ports: Sequence[int]) -> socket.socket:
    """A socket that listens there. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in ports:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
            found.listen(128)
            return found
        except OSError as error:
            found.close()
            why = error.strerror or str(error)
    places = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
    raise UsageError(f"can't listen on {host}, {places}: {why}; `--port N` takes another one")
