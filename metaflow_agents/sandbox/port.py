"""The sandbox port: a command runs on a tree of exactly the given files, and what it gave comes back as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

NOT_EXECUTABLE = 126                # the exit codes that POSIX shells use
NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command gave. A red exit code is data, never an exception.

    `exit_code`: 0 to 255; minus the signal's number where a signal ended it (-9 after a timeout); 127 and 126 where
    it could not be started (no such command; not executable), `stderr` then saying so; -9 where it took more than the
    sandbox allows, at the end of `stderr` saying what.
    `stdout`, `stderr`: text, cut at a bound (`cut` is then true), without the absolute path of the folder it ran in.
    `seconds`: wall time. `files`: path → bytes of those asked for with `collect` that exist at the end.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


class Sandbox(Protocol):
    """Where commands run."""

    @property
    def name(self) -> str:
        """As `--sandbox NAME` and the journal spell it."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes],
        timeout: float | None = None,  # noqa: ASYNC109  the command's own time, that it is told about
        collect: Sequence[str] = (),
    ) -> Completed:
        """Run `argv`, without a shell, in a fresh folder that holds exactly `files` (path → bytes).

        `timeout` in seconds; None: as long as the sandbox allows, which may be for ever. `collect` names files to bring back,
        those that exist. Cancelling the awaiting task ends the command and all that it started before the cancellation goes on.
        Raises AnswerInvalid for a refused path in `files` or `collect`, and for a collected path that is no regular
        file or too large; RunError where the machine can't start any process (disk full, no memory), or the sandbox does
        not hold any more: then the command has not run.
        """
        ...
