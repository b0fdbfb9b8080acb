"""What the sandboxes that confine commands have in common: limits, the user of commands, the filter of system calls."""

from __future__ import annotations

import os
from collections.abc import Mapping

from metaflow_agents.sandbox import seccomp
from metaflow_agents.sandbox.carrier import Carrier, Order
from metaflow_agents.sandbox.limits import SandboxLimits

OUTSIDER = 65533
"""As root: the user and group id of commands. No account and no service has it, unlike that of `nobody`."""


class Limited(Carrier):
    """Commands within `limits`. As root they become `owner`."""

    def __init__(self, limits: SandboxLimits | None, parallel: int) -> None:
        super().__init__(parallel=parallel)
        self.limits = limits or SandboxLimits()
        self.owner = OUTSIDER if hasattr(os, "geteuid") and os.geteuid() == 0 else None

    def seconds(self, order: Order) -> float | None:
        """How long a command may take; None: a session waits for its next words without an end."""
        return self.limits.seconds if order.timeout is None and order.channel is None else order.timeout


class Filtered(Limited):
    """Commands whose filter of system calls is loaded by our own code.

    `environment`: what of the user's environment may be passed on (name → value): of it, TERM alone is.
    """

    def __init__(self, environment: Mapping[str, str], *, limits: SandboxLimits | None = None, parallel: int = 32) -> None:
        super().__init__(limits, parallel)
        self._environment = {"TERM": environment["TERM"]} if "TERM" in environment else {}
        self.room = 2 * self.limits.memory
        self._filter = seccomp.program()
