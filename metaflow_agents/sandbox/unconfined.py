"""The sandbox called `none`: a fresh folder and a clean environment, and nothing that would hold a command back.

A command sees exactly the given files, no secrets of the user's environment, and an empty home. It is not confined:
it can reach the network and the rest of the disk. So it must be asked for, with `--sandbox none`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox import bridging
from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Carrier, Order
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.interpreter import user_base
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.sanitised import PACKAGES, OutputSanitiser

_MARKER = "SOP_COMMAND_FOLDER"
_LISTENS_SECONDS = 10.0


class Unconfined(Carrier):
    """Commands on this machine, not held back.

    `environment`: what commands get of the user's environment (name → value): PATH, and no secrets.
    """

    name = "none"

    def __init__(self, environment: Mapping[str, str], *, parallel: int = 32) -> None:
        super().__init__(parallel=parallel)
        self._environment = dict(environment)

    def group(self, copy: Copy, order: Order) -> ProcessGroup:
        """A process of this machine, in the copy."""
        beside = str(Path(sys.executable).parent if order.packages is None else order.packages / "bin")
        environment = self._environment | SAME_EVERYWHERE | user_base() | {
            "PATH": os.pathsep.join((beside, self._environment.get("PATH", os.defpath))),
            "HOME": str(copy.home),
            "TMPDIR": str(copy.tmp),
            "PWD": str(copy.work),
            _MARKER: str(copy.base),
        }
        given: dict[str, Any] = {"folder": copy.work, "marker": f"{_MARKER}={copy.base}", "timeout": order.timeout,
                                 "channel": order.channel}
        if order.proxy is None:
            return ProcessGroup(order.argv, environment=environment, **given)
        port = _free_port()
        bridge = bridging.command(str(bridging.BRIDGE), str(order.proxy), port)
        return _Bridged(order.argv, environment=environment | bridging.variables(port), bridge=bridge, port=port, **given)

    def shown(self, copy: Copy, packages: Path | None = None) -> OutputSanitiser:
        """`.` for where the command ran, `..` for what lies around it, `~packages` for its packages."""
        return OutputSanitiser(
            ((str(copy.work), "."), (str(copy.base), ".."), *(() if packages is None else ((str(packages), PACKAGES),)))
        )


class _Bridged(ProcessGroup):
    """A command and, before it and until its end, the bridge to a proxy."""

    def __init__(self, *given: Any, bridge: tuple[str, ...], port: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self._command, self._port = bridge, port
        self._bridge: subprocess.Popen[bytes] | None = None

    def _start(self, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
        bridging.source()
        self._bridge = subprocess.Popen(self._command, cwd="/", env=self._environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + _LISTENS_SECONDS
        while not _listens(self._port):
            if self._bridge.poll() is not None or time.monotonic() >= deadline:
                raise RunError("the bridge to the proxy does not listen, so the command was not run; try again: `sop resume`")
            time.sleep(0.01)
        return super()._start(descriptors)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        super()._end(process)
        self._end_bridge()

    def close(self) -> None:
        """Its end too, where the command could not be started."""
        self._end_bridge()
        super().close()

    def _end_bridge(self) -> None:
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.kill()
            bridge.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
