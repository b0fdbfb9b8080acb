"""One worker process as its parent has it: started clean, asked one thing at a time, ended at a deadline."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from metaflow_agents.errors import ForeignRefused, RunError
from metaflow_agents.workers.jobs import MIB, WorkerJob
from metaflow_agents.workers.serve import ANSWER, READY, REQUEST

_START_SECONDS = 60.0               # on a machine that does many other things
_WALL = 20                          # times the processor time: other processes want the machine too
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}     # numpy would start one a core, each with 40 MB of the address space
_SERVE = Path(__file__).with_name("serve.py")
_TOO_SLOW = frozenset({signal.SIGPROF, signal.SIGXCPU})


class Worker:
    """A process that does one job. Not for several threads at once, but for `stop`, which any may call."""

    def __init__(self, job: WorkerJob) -> None:
        self.job = job
        self._stopped = self._retired = False
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-B", str(_SERVE), job.module, job.function, str(job.memory),
                     *_folders(job.package)],
                    stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_ENVIRONMENT, cwd="/",
                    start_new_session=True)
            except OSError as error:
                ours.close()
                raise RunError(f"can't start a process that reads foreign files ({sys.executable}): {error.strerror}") from error
        self._line = ours
        try:
            ready = self._received(1, time.monotonic() + _START_SECONDS)
        except (TimeoutError, EOFError, ConnectionError):
            ready = b""
        if ready != READY:
            self.close()
            if not self._stopped:
                raise RunError(f"the process that reads foreign files does not start (job `{job.name}`, {sys.executable}, exit "
                               f"status {self._process.returncode}): is `{job.package or 'metaflow_agents'}` installed whole?")

    @property
    def alive(self) -> bool:
        """Whether it can be asked something."""
        return not self._stopped and not self._retired and self._process.poll() is None

    def ask(self, data: bytes, arguments: dict[str, Any]) -> Any:
        """The result for some bytes. Raises ForeignRefused, and is closed then, where there is none."""
        seconds = self.job.allowed(len(data))
        named = json.dumps(arguments).encode()
        deadline = time.monotonic() + seconds * _WALL
        try:
            return self._read(self._exchanged(REQUEST.pack(len(named), len(data), seconds) + named, data, deadline))
        except TimeoutError:
            self.close()
            raise ForeignRefused(f"took longer than {seconds * _WALL:g} s") from None
        except (EOFError, ConnectionError):
            self.close()
            raise ForeignRefused(self._why(seconds)) from None
        except ForeignRefused:
            self.close()
            raise

    def _exchanged(self, head: bytes, data: bytes, deadline: float) -> tuple[bytes, bytes]:
        for part in (head, data):
            self._line.settimeout(max(0.001, deadline - time.monotonic()))
            self._line.sendall(part)
        kind, size = ANSWER.unpack(self._received(ANSWER.size, deadline))
        if size > self.job.output:
            raise ForeignRefused(f"gives more than {self.job.output // MIB} MiB of result")
        return kind, self._received(size, deadline)

    def _read(self, answer: tuple[bytes, bytes]) -> Any:
        kind, told = answer
        self._retired = kind.islower()                  # it ends by itself
        kind = kind.upper()
        if kind == b"M":
            raise ForeignRefused(self._memory())
        if kind == b"F":
            raise ForeignRefused(f"can't be parsed ({told.decode('utf-8', 'replace')})")
        try:
            return json.loads(told)
        except (ValueError, RecursionError):
            raise ForeignRefused("gave a result that is no JSON") from None

    def _received(self, size: int, deadline: float) -> bytes:
        """So many bytes. Raises TimeoutError, EOFError, ConnectionError."""
        found = bytearray()
        while len(found) < size:
            self._line.settimeout(max(0.001, deadline - time.monotonic()))
            part = self._line.recv(min(size - len(found), MIB))
            if not part:
                raise EOFError
            found += part
        return bytes(found)

    def _why(self, seconds: float) -> str:
        """Why it ended before it answered."""
        code = self._process.returncode
        if self._stopped:
            return "was not read to its end: it was cancelled"
        if -code in _TOO_SLOW:
            return f"took more than {seconds:.3g} s of processor time"
        if code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
            return f"made its parser crash (signal {-code}; it may use {self.job.memory // MIB} MiB of memory)"
        if code == -signal.SIGKILL:
            return f"made the system kill its parser: {self._memory()}?"
        return f"made its parser end (exit status {code})"

    def _memory(self) -> str:
        return f"took more than {self.job.memory // MIB} MiB of memory"

    def stop(self) -> None:
        """End it; whoever waits for its answer hears ForeignRefused."""
        self._stopped = True
        self._process.kill()

    def close(self) -> None:
        """End it where it still runs, and release what it holds here."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):           # what it ended with by itself is told; its line is closed, so it ends
            self._process.wait(0.2)
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """In a process that was forked: the worker is the parent's."""
        self._line.close()
        self._process.returncode = 0


@cache
def _folders(package: str | None) -> tuple[str, ...]:
    """Where this process imports its own package from, and the package that a job takes: all that a worker looks through."""
    found: list[str] = []
    for name in ("metaflow_agents", *([package] if package else [])):
        spec = find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            found.append(str(Path(place).resolve().parent))
    return tuple(dict.fromkeys(found))
