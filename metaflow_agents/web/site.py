"""What one server serves: the workspace, the folder of SOPs, the names under which it is reached, who has a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from metaflow_agents.cli.options import WORKSPACE
from metaflow_agents.web.beginning import Names
from metaflow_agents.web.indexed import Indexes
from metaflow_agents.web.listing import Listing
from metaflow_agents.web.sessions import Sessions
from metaflow_agents.web.uploads import Uploads
from metaflow_agents.web.watched import Watched

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass
class Site:
    """`workspace`: the directory of the runs, as the command line was given it; `folder`: where the server was started, below
    which SOPs and inputs lie; `host`: the address that it listens on; `port`: there.
    """

    workspace: Path
    folder: Path
    port: int
    host: str = "127.0.0.1"
    sessions: Sessions = field(default_factory=Sessions)
    closing: bool = False

    def __post_init__(self) -> None:
        self.listing = Listing(self.workspace)
        self.watched, self.indexes = Watched(self.workspace, self.where), Indexes()
        self.uploads, self.names = Uploads(self.workspace), Names(self.workspace)

    def changed(self) -> None:
        """A request may have changed runs: who asks next is told of it."""
        self.listing.changed()
        self.watched.changed()

    @property
    def where(self) -> str:
        """The option that names the workspace in commands that pages show; empty where it is the usual one."""
        return "" if self.workspace == WORKSPACE else f" --workspace {self.workspace}"

    @property
    def origin(self) -> str:
        """The address that is opened in the browser."""
        name = "127.0.0.1" if self.host in ("0.0.0.0", "::") else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    @property
    def cookie(self) -> str:
        """The name of its cookie: browsers hand cookies to every port of a host, and each server has its own."""
        return f"sop_session_{self.port}"

    def serves(self, authority: str) -> bool:
        """Whether a `Host` is one of its names. A name that somebody else's DNS leads here is none (DNS rebinding)."""
        name, _, port = authority.rpartition(":")
        if port != str(self.port):
            return False
        if name in LOOPBACK or name in (self.host, f"[{self.host}]"):
            return True
        return self.host in ("0.0.0.0", "::") and _is_address(name)


def _is_address(name: str) -> bool:
    """Whether it is an address and no name: nobody's DNS has a say in it."""
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
