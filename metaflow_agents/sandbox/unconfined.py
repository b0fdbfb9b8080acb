"""The sandbox called `none`: a fresh folder and a clean environment, and nothing that would hold a command back.

A command sees exactly the given files, no secrets of the user's environment, and an empty home. It is not confined:
it can reach the network and the rest of the disk. So it must be asked for, with `--sandbox none`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from metaflow_agents.sandbox.carrier import SAME_EVERYWHERE, Carrier
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.interpreter import user_base
from metaflow_agents.sandbox.process import ProcessGroup
from metaflow_agents.sandbox.shown import Shown

_MARKER = "SOP_COMMAND_FOLDER"


class Unconfined(Carrier):
    """Commands on this machine, not held back.

    `environment`: what commands get of the user's environment (name → value): PATH, and no secrets.
    """

    name = "none"

    def __init__(self, environment: Mapping[str, str], *, parallel: int = 32) -> None:
        super().__init__(parallel=parallel)
        self._environment = dict(environment)

    def group(self, copy: Copy, argv: Sequence[str], timeout: float | None) -> ProcessGroup:
        """A process of this machine, in the copy."""
        beside = str(Path(sys.executable).parent)
        environment = self._environment | SAME_EVERYWHERE | user_base() | {
            "PATH": os.pathsep.join((beside, self._environment.get("PATH", os.defpath))),
            "HOME": str(copy.home),
            "TMPDIR": str(copy.tmp),
            "PWD": str(copy.work),
            _MARKER: str(copy.base),
        }
        return ProcessGroup(argv, folder=copy.work, environment=environment, marker=f"{_MARKER}={copy.base}", timeout=timeout)

    def shown(self, copy: Copy) -> Shown:
        """`.` for where the command ran, `..` for what lies around it."""
        return Shown(((str(copy.work), "."), (str(copy.base), "..")))
