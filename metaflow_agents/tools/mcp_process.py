"""A server as a process of this machine: what it says on its error output, its end, and that of all it started.

Servers that a SOP names are programs that its author chose; they are not confined. They get an environment of their own, not the
user's, and a session of their own, so that all of it can be ended at once. What leaves that session is found, where the system
tells (Linux), by a mark in the environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from metaflow_agents.errors import RunError

KEPT_BYTES = 4096                   # of the error output: its end, which says why
LEAVE_SECONDS = 2.0                 # for leaving by itself, once its input is closed
TERM_SECONDS = 1.0                  # between SIGTERM and SIGKILL
_GONE_SECONDS = 2.0                 # until the system has taken a killed process away
_POLL_SECONDS = 0.01
_MARK = "SOP_MCP_SERVER"
_LIVE: set[ServerProcess] = set()


class Heard:
    """The end of what a server said beside its messages, for errors."""

    def __init__(self) -> None:
        self._kept, self._dropped = bytearray(), False

    def add(self, data: bytes) -> None:
        """One more piece."""
        self._kept += data
        if len(self._kept) > KEPT_BYTES:
            self._dropped = True
            del self._kept[:-KEPT_BYTES]

    def __str__(self) -> str:
        text = self._kept.decode("utf-8", "replace").strip()
        return f"… {text.partition(chr(10))[2]}" if self._dropped and text else text      # of a cut line not even the end


def _mend(program: str) -> str:
    """What to do about a program that is not there: a whole command in its place is an old habit."""
    first, *more = program.split()
    return f"write `command: {first}` and `args: [{', '.join(more)}]`" if more else "install it, or mend the path"


class ServerProcess:
    """A process with pipes. `environment` is all that it gets. Made by `started`; `end` has to be awaited."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process, self._mark = process, mark
        _LIVE.add(self)

    @classmethod
    async def started(cls, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> ServerProcess:
        """Starts it. Raises RunError where that can't be."""
        mark = uuid.uuid4().hex
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env={**environment, _MARK: mark}, start_new_session=True)
        except FileNotFoundError as error:
            raise RunError(f"can't start `{argv[0]}`: {error.filename} is not there: {_mend(argv[0])}") from None
        except OSError as error:
            raise RunError(f"can't start `{argv[0]}`: {error.strerror}") from None
        except ValueError as error:
            raise RunError(f"can't start `{argv[0]}`: {error}") from None
        return cls(process, mark)

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Where messages to it are written."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Where messages of it are read."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """What it says beside."""
        assert self._process.stderr is not None
        return self._process.stderr

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus a signal's number where that ended it."""
        return self._process.returncode

    async def end(self) -> None:
        """Closes its input, then asks it to end, then kills it, and all it started with it; returns within a few seconds.

        (https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown) Its outputs have to be read meanwhile.
        """
        try:
            with suppress(OSError, RuntimeError):
                self.stdin.close()
            if not await self._over(LEAVE_SECONDS):
                self._signal(signal.SIGTERM)
                await self._over(TERM_SECONDS)
        finally:
            self.kill()
        await self._over(_GONE_SECONDS)

    def kill(self) -> None:
        """Kills it and all it started, at once."""
        self._signal(signal.SIGKILL)
        for pid in _marked(f"{_MARK}={self._mark}".encode()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _LIVE.discard(self)

    def release(self) -> None:
        """Gives its pipes back, where somebody out of reach still holds the other ends."""
        transport = getattr(self._process, "_transport", None)      # nothing public closes it
        if transport is not None:
            with suppress(ProcessLookupError, PermissionError):
                transport.close()

    async def _over(self, seconds: float) -> bool:
        """Whether it ended in time. Not `wait()`: that waits for the pipes too, which a grandchild may hold."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._process.returncode is None:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):         # PermissionError: what macOS says of a group of zombies
            os.killpg(self._process.pid, number)


def end_all_servers() -> None:
    """Kills every server that this process runs: for a process that is about to end without waiting for anything."""
    for server in tuple(_LIVE):
        server.kill()


def _marked(mark: bytes) -> list[int]:
    """Processes that have the mark in the environment they were started with (Linux; none elsewhere)."""
    found = []
    with suppress(OSError):                                         # no /proc: this system does not tell
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with suppress(OSError):                             # it ended meanwhile, or is somebody else's
                    if mark in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
    return found
