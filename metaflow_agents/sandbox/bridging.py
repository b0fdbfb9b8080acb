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
_TRIES = 500                        # looks at whether it listens, a fiftieth of a second apart
_LINES = """( exec {bridge} </dev/null >/dev/null 2>/tmp/.bridge & )
tries=0
while :; do
    while read -r _ local remote state _; do
        case "$local $remote $state" in 0100007F:{port:04X}\\ 00000000:0000\\ 0A) break 2 ;; esac
    done </proc/net/tcp
    tries=$((tries + 1))
    if [ $tries -gt {tries} ]; then
        echo "the bridge to the proxy does not listen:" >&2
        tail -n 3 /tmp/.bridge >&2
        exit 125
    fi
    sleep 0.02
done
rm -f /tmp/.bridge
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
    """The lines of a shell that start it, inside, and wait until it listens. It is nobody's child: who waits for all of theirs
    does not wait for it.
    """
    return _LINES.format(bridge=shlex.join(command(script, proxy, PORT)), port=PORT, tries=_TRIES)


def variables(port: int) -> dict[str, str]:
    """What tells programs of the proxy; their own loopback they reach without it."""
    url = f"http://127.0.0.1:{port}"
    own = "localhost,127.0.0.1,::1"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {**dict.fromkeys(names, url), "NO_PROXY": own, "no_proxy": own}
