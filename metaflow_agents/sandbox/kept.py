"""A command behind a keeper: let go only when it is held, looked after while it runs, gone when its keeper has ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress

from metaflow_agents.sandbox.confined import Confined
from metaflow_agents.sandbox.limits import tree

_TOLD_SECONDS = 10.0


class KeptCopies(Confined):
    """`argv` starts the keeper (`keeper.py`) and ends in the command. It ends when its socket does, and all with it."""

    confining = "landlock"
    others = 2                                          # the keeper, and who waits at its proxy's door

    def _first_of(self, started: int) -> int | None:
        return started

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Have the keeper end everything; called twice, and after the second time nothing of it is left."""
        again, self._ending = self._ending, True
        self._kill()
        if again and process.poll() is None:
            try:
                process.wait(_TOLD_SECONDS)
            except subprocess.TimeoutExpired:           # it does not listen any more: all are below it, whoever started them
                for pid in reversed(list(tree(process.pid))):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def _kill(self) -> None:
        with suppress(OSError):                         # it has ended
            self._ours.shutdown(socket.SHUT_RDWR)
