"""One process group, watched by one thread: started, read, ended, and nothing of it left running.

Blocking on purpose: `carrier` runs it in a thread. All of a group dies with its leader, by SIGKILL: a grandchild
that keeps a pipe open holds nothing up. Where the system tells (Linux), processes that left the group are found too,
by the temporary folder that stands in their environment.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from metaflow_agents.errors import RunError
from metaflow_agents.sandbox.channel import Channel
from metaflow_agents.sandbox.output import Output
from metaflow_agents.sandbox.port import NOT_EXECUTABLE, NOT_FOUND

_DRAIN_SECONDS = 1.0                # how long output is read once the group is dead
_LIVE: set[ProcessGroup] = set()
_POLL_SECONDS = 0.02                # how often to look where the system can't tell of an ended process


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """How a process ended: `exit_code` as `subprocess` has it, `seconds` of wall time, `why` where it had to be ended."""

    exit_code: int
    stdout: Output
    stderr: Output
    seconds: float
    timed_out: bool = False
    why: str = ""

    def said_at_the_end_of(self, text: str) -> str:
        """A text and, where it had to be ended, a last line that says why."""
        if not self.why:
            return text
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}ended by the sandbox: {self.why}\n"


class ProcessGroup:
    """A command and all that it starts. `marker`: a variable (`NAME=value`) of its environment that nothing else has.
    `channel`: what it talks over with us, where it does. `begun`: when it could first do anything, in nanoseconds since 1970.

    What confines commands inherits from it, and says how it starts one, looks after it, and ends it.
    """

    def __init__(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], marker: str = "", timeout: float | None,
        channel: Channel | None = None,
    ) -> None:
        self._argv, self._folder, self._environment = list(argv), folder, dict(environment)
        self._program = self._argv[0]               # what is told to have failed; who confines names the command's own
        self._marker, self._timeout, self._channel = marker, timeout, channel
        self.begun = time.time_ns()
        self._why = ""
        self._wake_read, self._wake_write = os.pipe()
        self._stdout, self._stderr = Output(), Output()
        self._stopped = False
        self._stopping = threading.Lock()           # `stop` comes from another thread than `close`
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Ask for the end, from another thread; of a group that was closed, nothing."""
        with self._stopping:
            if not self._stopped:
                self._stopped = True
                os.write(self._wake_write, b"!")

    def close(self) -> None:
        """Release the pipe of `stop`, after `run` has returned."""
        with self._stopping:
            self._stopped = True
            os.close(self._wake_read)
            os.close(self._wake_write)

    def run(self) -> EndedProcess:
        """Start, watch and end it. Raises RunError where the machine can't start processes now."""
        started = time.monotonic()
        self.begun = time.time_ns()
        try:
            process = self._start(() if self._channel is None else (self._channel.theirs.fileno(),))
        except (OSError, ValueError) as error:
            code, why = self._not_started(error)
            self._stderr.add(why.encode())
            return EndedProcess(code, self._stdout, self._stderr, time.monotonic() - started)
        self._process = process
        if self._channel is not None:
            self._channel.theirs.close()
        _LIVE.add(self)
        try:
            timed_out = self._watch(process, None if self._timeout is None else started + self._timeout)
        finally:
            _LIVE.discard(self)
        return self._ended(
            EndedProcess(process.wait(), self._stdout, self._stderr, time.monotonic() - started, timed_out, self._why)
        )

    def _start(self, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
        """The process, with further descriptors. Raises OSError and ValueError where it can't be started."""
        return subprocess.Popen(
            self._argv, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, pass_fds=descriptors,
        )

    def _not_started(self, error: OSError | ValueError) -> tuple[int, str]:
        """Exit code and words for a command that can't be started. Raises RunError where that is the machine's fault."""
        if isinstance(error, ValueError):
            return NOT_EXECUTABLE, f"{self._program}: an argument holds a NUL character\n"
        if error.errno == errno.E2BIG:
            return NOT_EXECUTABLE, f"{self._program}: {error.strerror}\n"
        return self._refused(error)

    def _refused(self, error: OSError) -> tuple[int, str]:
        """The same, where it is not about the arguments."""
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return NOT_FOUND, f"{self._program}: command not found\n"
        if isinstance(error, PermissionError) or error.errno in (errno.ENOEXEC, errno.ELOOP, errno.ENAMETOOLONG):
            return NOT_EXECUTABLE, f"{self._program}: {error.strerror}\n"
        raise RunError(f"can't start `{self._program}`: {error.strerror}") from error

    def _ears(self) -> dict[int, Callable[[], bool]]:
        """Further descriptors: each with what is called when it can be read, which says whether to go on listening."""
        return {} if self._channel is None else {self._channel.ours.fileno(): self._hear_answers}

    def _hear_answers(self) -> bool:
        """What came over the channel; each answer takes along what was written before it."""
        if self._channel is None or self._process is None:
            return False
        more, answers = self._channel.heard()
        for answer in answers:
            for pipe, output in ((self._process.stdout, self._stdout), (self._process.stderr, self._stderr)):
                if pipe is not None:
                    output.drain(pipe.fileno())
            self._channel.answered(answer, self._stdout.taken(), self._stderr.taken())
        return more

    def _every(self) -> float | None:
        """In how many seconds `_look` is due again; None: never."""
        return None

    def _look(self) -> str:
        """Looks after the running command; why it must be ended, or nothing."""
        return ""

    def _ended(self, ended: EndedProcess) -> EndedProcess:
        """The last word on how it ended."""
        return ended

    def _watch(self, process: subprocess.Popen[bytes], deadline: float | None) -> bool:
        """Read until the process ended and its pipes are empty; whether its time ran out."""
        ended_at: float | None = None
        timed_out = False
        pidfd = pidfd_of(process.pid)
        with process, selectors.DefaultSelector() as selector:
            self._listen(selector, process, pidfd)
            while True:
                stop, ended = self._read(selector, self._wait(deadline, ended_at, pidfd is None))
                now = time.monotonic()
                if ended_at is None:
                    late = deadline is not None and now >= deadline
                    ended = ended or (pidfd is None and process.poll() is not None)
                    timed_out = late and not ended and not stop
                    self._why = "" if ended or stop or late else self._look()
                    if ended or stop or late or self._why:
                        self._end(process)
                        ended_at = now
                elif now - ended_at >= _DRAIN_SECONDS:
                    break
                if ended_at is not None and not any(isinstance(key.data, Output) for key in selector.get_map().values()):
                    break
            self._end(process)
        if pidfd is not None:
            os.close(pidfd)
        return timed_out

    def _listen(self, selector: selectors.BaseSelector, process: subprocess.Popen[bytes], pidfd: int | None) -> None:
        for pipe, output in ((process.stdout, self._stdout), (process.stderr, self._stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, output)
        selector.register(self._wake_read, selectors.EVENT_READ, "stop")
        for descriptor, hear in self._ears().items():
            selector.register(descriptor, selectors.EVENT_READ, hear)
        if pidfd is not None:
            selector.register(pidfd, selectors.EVENT_READ, "ended")

    @staticmethod
    def _read(selector: selectors.BaseSelector, wait: float | None) -> tuple[bool, bool]:
        """One round of reading: whether to stop was asked, and whether the process ended."""
        stop = ended = False
        for key, _ in selector.select(wait):
            if isinstance(key.data, Output):
                more = key.data.read(key.fd)
            elif callable(key.data):
                more = key.data()
            else:
                stop, ended = stop or key.data == "stop", ended or key.data == "ended"
                more = False
            if not more:
                selector.unregister(key.fileobj)
        return stop, ended

    def _wait(self, deadline: float | None, ended_at: float | None, polling: bool) -> float | None:
        """How long to sleep unless something is heard; None: until then."""
        now = time.monotonic()
        if ended_at is not None:
            return max(0.0, ended_at + _DRAIN_SECONDS - now)
        left = [] if deadline is None else [max(0.0, deadline - now)]
        due = self._every()
        return min([*left, *([] if due is None else [due]), *([_POLL_SECONDS] if polling else [])], default=None)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group. Its leader is not reaped before, so that its number is nobody else's."""
        with suppress(ProcessLookupError, PermissionError):     # PermissionError: what macOS says of a group of zombies
            os.killpg(process.pid, signal.SIGKILL)
        for pid in _marked(self._marker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def end_all() -> None:
    """Kill every command that this process runs now: for a process that is about to end without waiting for anything."""
    for group in tuple(_LIVE):
        if group._process is not None:
            group._end(group._process)


def pidfd_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has them. Raises ProcessLookupError."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL):        # an old kernel, or a container's filter
            return None
        raise RunError(f"can't watch a command: {error.strerror}") from error


def _marked(marker: str) -> list[int]:
    """Processes that have the marker in the environment they were started with (Linux; none elsewhere). Without a marker none: an
    environment ends with a NUL, so the empty text would be found in every process of the machine.
    """
    wanted = marker.encode()
    found: list[int] = []
    if b"=" not in wanted[1:]:
        return found
    try:
        entries = os.listdir("/proc")
    except OSError:                     # no such folder: this system does not tell
        return found
    for entry in entries:
        if not entry.isdigit():
            continue
        with suppress(OSError):         # it ended meanwhile, or is somebody else's
            descriptor = os.open(f"/proc/{entry}/environ", os.O_RDONLY)
            try:
                text = os.read(descriptor, 1 << 17)
            finally:
                os.close(descriptor)
            if wanted in text.split(b"\0"):
                found.append(int(entry))
    return found
