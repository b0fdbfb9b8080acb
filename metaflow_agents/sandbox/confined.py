"""A command inside bubblewrap: let go only when it is held, looked after while it runs, gone when it has ended.

A socket joins us with the shell inside that becomes the command. When it is ready, we look for the first process inside,
number 1 of a process namespace: when that ends, the kernel has ended all others. Only then the shell gets its word to go, so
that where this process dies before, nothing starts; where it dies later, `--die-with-parent` ends everything.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.cgroup import ControlGroup
from metaflow_agents.sandbox.channel import Channel
from metaflow_agents.sandbox.limits import SandboxLimits, Watchdog, is_first, tree
from metaflow_agents.sandbox.process import EndedProcess, ProcessGroup, pidfd_of

_GATE = """echo ready >&0
read -r go || exit 125
LIMITS
BEFORE
echo started >&0
case "$1" in
*/*)
    if ! [ -e "$1" ]; then printf '%s: command not found\\n' "$1" >&2; exit 127; fi
    if ! [ -x "$1" ] || [ -d "$1" ]; then printf '%s: Permission denied\\n' "$1" >&2; exit 126; fi ;;
*)  if ! command -v -- "$1" >/dev/null 2>&1; then printf '%s: command not found\\n' "$1" >&2; exit 127; fi ;;
esac
exec "$@" </dev/null
"""
_GONE_SECONDS = 10.0
MEND = "`sop doctor` says what is missing; mend it, then `sop resume`"


@dataclass(frozen=True, slots=True)
class SandboxPlace:
    """Where a command runs. `folders`: what it writes to. `parent`: where it gets a control group of its own; None: the watchdog
    adds up what it takes. `mounts`: file systems of its own inside.
    """

    folders: Sequence[Path]
    parent: Path | None = None
    mounts: Sequence[str] = ()


class Confined(ProcessGroup):
    """`argv` is bubblewrap's, ending in `gated(command, …)`; `command` is what it is about.

    Bubblewrap is not asked for the process (`--info-fd`): where we died while it answered, it would leave one behind.

    `descriptors`: what bubblewrap is handed, and released here.
    """

    confining = "bubblewrap"                            # what is said to confine, where it does not
    others: int | None = None                           # see `Watchdog`

    def __init__(
        self, argv: Sequence[str], command: Sequence[str], *, environment: Mapping[str, str], limits: SandboxLimits,
        timeout: float | None, place: SandboxPlace, descriptors: Sequence[int] = (), channel: Channel | None = None,
    ) -> None:
        super().__init__(argv, folder=Path("/"), environment=environment, timeout=timeout, channel=channel)
        self._program, self._limits, self._folders, self._mounts = command[0], limits, place.folders, place.mounts
        self._descriptors, self._parent = list(descriptors), place.parent
        self._control: ControlGroup | None = None
        self._ours, self._theirs = socket.socketpair()
        self._heard = b""
        self._first: int | None = None              # the pid of the first process inside
        self._pidfd: int | None = None
        self._watchdog: Watchdog | None = None
        self._missing = ""
        self._ending = False

    def close(self) -> None:
        """Release the socket too."""
        super().close()
        self._release()
        self._ours.close()
        self._theirs.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _start(self, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._argv, cwd=self._folder, env=self._environment, stdin=self._theirs.fileno(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, pass_fds=(*descriptors, *self._descriptors))
        self._theirs.close()
        self._release()
        return process

    def _refused(self, error: OSError) -> tuple[int, str]:
        if isinstance(error, FileNotFoundError):
            raise RunError(f"{self.confining} is gone from {self._argv[0]}, and without it no command runs: {MEND}") from error
        raise RunError(f"can't start {self.confining} ({self._argv[0]}): {error.strerror}: {MEND}") from error

    def _ears(self) -> dict[int, Callable[[], bool]]:
        return {**super()._ears(), self._ours.fileno(): self._hear}

    def _hear(self) -> bool:
        try:
            data = self._ours.recv(1 << 12)
        except OSError:                             # it ended with our word unread
            data = b""
        self._heard += data
        if self._first is None and self._heard.endswith(b"ready\n") and self._process is not None:
            self._held(self._process.pid)
        return bool(data)

    def _first_of(self, started: int) -> int | None:
        """The process with which all inside ends."""
        return next((pid for pid in tree(started) if is_first(pid)), None)

    def _held(self, started: int) -> None:
        """The command waits inside."""
        self._first = self._first_of(started)
        if self._first is None:                         # without it there is no end to it: the shell never goes on
            self._missing = "its processes can't be found in /proc"
            return
        try:
            self._pidfd = pidfd_of(self._first)
            if self._ending:
                self._kill()
                return
            if self._parent is not None:
                self._control = ControlGroup(self._parent, self._limits)
                self._control.take(tree(self._first))
            self._watchdog = Watchdog(self._limits, self._first, self._folders, counted=self._control is not None,
                                      mounts=self._mounts, others=self.others)
            self.begun = time.time_ns()
            self._ours.sendall(b"go\n")
        except RunError as error:
            self._missing = str(error)
        except OSError:                                 # it ended meanwhile
            return

    def _every(self) -> float | None:
        return None if self._watchdog is None else self._watchdog.due()

    def _look(self) -> str:
        return self._missing if self._watchdog is None else self._watchdog.look()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the first process inside, and with it all. Where it is not known yet, that is done as soon as it is: to kill
        bubblewrap while it starts would leave a process behind that waits for it for ever.
        """
        if self._first is not None:
            self._kill()
        elif self._ending:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self._ending = True

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            elif self._first is not None:
                os.kill(self._first, signal.SIGKILL)

    def _ended(self, ended: EndedProcess) -> EndedProcess:
        """Raises RunError where the command could not be confined, and where something can't be ended."""
        self._wait_for_all()
        passed = ""
        if self._control is not None:
            passed = self._control.passed()
            self._control.remove()
        if not self._heard.endswith(b"started\n") and not self._stopped and not ended.timed_out:
            told = self._heard.decode(errors="replace").removeprefix("ready\n").strip()
            told = told or bytes(ended.stderr.kept[:500]).decode(errors="replace").strip()
            said = self._missing or told or f"exit {ended.exit_code}"
            raise RunError(f"{self.confining} can't confine `{self._program}` any more ({said}), so it was not run: {MEND}")
        why = f"it ran longer than {self._timeout:g} seconds" if ended.timed_out else ended.why or passed
        return EndedProcess(_exit_code(ended.exit_code), ended.stdout, ended.stderr, ended.seconds, ended.timed_out, why)

    def _wait_for_all(self) -> None:
        """Until the first process is gone, and so all inside."""
        if self._pidfd is None:
            return
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        if not waiting.poll(_GONE_SECONDS * 1000):
            raise RunError(f"the processes of `{self._program}` can't be ended: the kernel does not let go of them")


def gated(command: Sequence[str], limits: str, before: str = "", shell: str = "/bin/sh") -> tuple[str, ...]:
    """The command behind a shell that waits for a line on its standard input, takes its limits, does what comes before, says
    `started`, and becomes the command. `limits`, `before`: lines of a POSIX shell; they end it with 125 where they fail.
    """
    return (shell, "-c", _GATE.replace("LIMITS", limits).replace("BEFORE", before), "sh", *command)


def _exit_code(code: int) -> int:
    """Bubblewrap tells 128 + n, as shells do, where signal n ended the command."""
    return 128 - code if 128 < code <= 128 + signal.NSIG - 1 else code
