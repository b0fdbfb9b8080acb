"""How a command without a network reaches a proxy of ours: a small process beside it listens on its loopback, and passes what
comes on to the proxy's Unix socket.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from metaflow_agents.errors import RunError

BRIDGE = Path(__file__).parent.parent / "network" / "bridge.py"
"""A script of the standard library alone: `python bridge.py SOCKET PORT` listens on 127.0.0.1:PORT."""
PORT = 3128
"""Where it listens inside a network of its own, in which nothing else does."""
_LINES = """said=$( ( exec {bridge} 1 </dev/null 2>&1 & ) )
if [ "$said" != {port} ]; then
    echo "the bridge to the proxy does not listen: $said" >&2
    exit 125
fi
"""


def source() -> bytes:
    """The bridge's script. Raises RunError where it is not there."""
    try:
        return BRIDGE.read_bytes()
    except OSError as error:
        raise RunError(f"the bridge to the proxy is missing: {BRIDGE}: {error.strerror}; install this package again") from error


def command(script: str, proxy: str, port: int) -> tuple[str, ...]:
    """What starts it. It does not look for modules beside what the command works on."""
    return (sys.executable, "-I", script, proxy, str(port))


def started_before(script: str, proxy: str) -> str:
    """The lines of a shell that start it, inside, and wait until it listens: what it writes ends then. They start no other
    program, since any may be denied. It is nobody's child: who waits for all of theirs does not wait for it.
    """
    return _LINES.format(bridge=shlex.join(command(script, proxy, PORT)), port=PORT)


def variables(port: int) -> dict[str, str]:
    """What tells programs of the proxy; their own loopback they reach without it."""
    url = f"http://127.0.0.1:{port}"
    own = "localhost,127.0.0.1,::1"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {**dict.fromkeys(names, url), "NO_PROXY": own, "no_proxy": own}
