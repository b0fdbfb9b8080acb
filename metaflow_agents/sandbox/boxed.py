"""A command in a container: talked with in frames (`contained.py`) over its program's input and output, removed by its name."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.channel import Channel
from metaflow_agents.sandbox.confined import MEND
from metaflow_agents.sandbox.limits import SandboxLimits, Watchdog, taking
from metaflow_agents.sandbox.output import Output
from metaflow_agents.sandbox.process import EndedProcess, ProcessGroup
from metaflow_agents.texts.strict_json import read

_HEAD = struct.Struct(">cI")
_PIECE = 1 << 16
_LAST_SECONDS = 10.0                # for what the program still has to say, once it was told to end


class Boxed(ProcessGroup):
    """`argv` is the program's, ending in `command`; `remove` removes the container. `environment`: the program's own. `folders`:
    what the command writes to here.
    """

    def __init__(self, argv: Sequence[str], command: Sequence[str], *, environment: Mapping[str, str], remove: Callable[[], None],
                 limits: SandboxLimits, timeout: float | None, folders: Sequence[Path], channel: Channel | None) -> None:
        super().__init__(argv, folder=Path("/"), environment=environment, timeout=timeout, channel=channel)
        self._program, self._remove, self._limits, self._folders = command[0], remove, limits, folders
        self._inner: socket.socket | None = None        # the command's end of the channel, which lies in this process
        self._input: int | None = None
        self._frames: int | None = None
        self._program_says: int | None = None
        self._heard, self._said = bytearray(), Output()
        self._told: dict[str, object] | None = None     # how the command ended
        self._started, self._early = False, b""         # what we said over the channel before
        self._watchdog: Watchdog | None = None
        self._removed = False

    def close(self) -> None:
        """Release the pipes too."""
        super().close()
        for descriptor in (self._input, self._frames, self._program_says):
            if descriptor is not None:
                os.close(descriptor)
        if self._inner is not None:
            self._inner.close()

    def _start(self, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
        if self._channel is not None:
            self._inner = self._channel.theirs.dup()
        process = subprocess.Popen(self._argv, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        pipes = [process.stdin, process.stdout, process.stderr]
        self._input, self._frames, self._program_says = (os.dup(pipe.fileno()) for pipe in pipes if pipe is not None)
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        process.stdin = process.stdout = process.stderr = None      # what they carry are frames, and no output of the command
        return process

    def _refused(self, error: OSError) -> tuple[int, str]:
        raise RunError(f"can't start {self._argv[0]}, and without it no command runs: {error.strerror}: {MEND}") from error

    def _ears(self) -> dict[int, Callable[[], bool]]:
        ears: dict[int, Callable[[], bool]] = {}
        if self._frames is not None:
            ears[self._frames] = self._hear_frames
        if self._program_says is not None:
            ears[self._program_says] = lambda: self._said.read(self._program_says or 0)
        if self._inner is not None:
            ears[self._inner.fileno()] = self._pass_on
        return ears

    def _pass_on(self) -> bool:
        """What we say over the channel."""
        data = b"" if self._inner is None else self._inner.recv(_PIECE)
        if data and self._started:
            self._tell(b"c", data)
        else:
            self._early += data
        return bool(data)

    def _hear_frames(self) -> bool:
        data = b"" if self._frames is None else os.read(self._frames, _PIECE)
        self._heard += data
        while len(self._heard) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._heard)
            if len(self._heard) < _HEAD.size + length:
                break
            frame = bytes(self._heard[_HEAD.size:_HEAD.size + length])
            del self._heard[:_HEAD.size + length]
            self._take(kind, frame)
        return bool(data)

    def _take(self, kind: bytes, data: bytes) -> None:
        if kind == b"r" and not self._started and self._process is not None:
            self._started, self.begun = True, time.time_ns()
            self._watchdog = Watchdog(self._limits, self._process.pid, self._folders, counted=True, others=0)
            self._tell(b"g", b"")
            if self._early:
                self._tell(b"c", self._early)
        elif kind in (b"o", b"e"):
            (self._stdout if kind == b"o" else self._stderr).add(data)
        elif kind == b"c" and self._channel is not None:
            for answer in self._channel.parsed(data):
                self._channel.answered(answer, self._stdout.taken(), self._stderr.taken())
        elif kind == b"x":
            self._told = read(data)

    def _tell(self, kind: bytes, data: bytes) -> None:
        with suppress(OSError):                         # it has ended
            left = memoryview(_HEAD.pack(kind, len(data)) + data)
            while left and self._input is not None:
                left = left[os.write(self._input, left):]

    def _every(self) -> float | None:
        return None if self._watchdog is None else self._watchdog.due()

    def _look(self) -> str:
        return "" if self._watchdog is None else self._watchdog.look()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Remove the container: its program here is not its parent."""
        if self._told is not None or self._removed:
            if self._removed and process.poll() is None:
                process.kill()
            return
        self._removed = True
        self._remove()

    def _ended(self, ended: EndedProcess) -> EndedProcess:
        """Raises RunError where the command did not start."""
        deadline = time.monotonic() + _LAST_SECONDS
        while time.monotonic() < deadline and self._hear_frames():
            pass
        if not self._started and not self._stopped and not ended.timed_out:
            said = bytes(self._said.kept[:500]).decode(errors="replace").strip() or f"exit {ended.exit_code}"
            raise RunError(f"{self._argv[0]} can't run `{self._program}` in a container ({said}): {MEND}")
        told = self._told or {}
        code = told.get("code")
        why = f"it ran longer than {self._timeout:g} seconds" if ended.timed_out else ended.why
        if not why and told.get("memory"):
            why = taking(self._limits.memory)
        elif not why and code is None and not self._stopped:
            said = bytes(self._said.kept[-500:]).decode(errors="replace").strip()
            why = f"its container ended{f': {said}' if said else ', as it took more than it may'}"
        exit_code = -signal.SIGKILL if not isinstance(code, int) else 128 - code if 128 < code <= 128 + signal.NSIG - 1 else code
        return EndedProcess(exit_code, ended.stdout, ended.stderr, ended.seconds, ended.timed_out, why)
