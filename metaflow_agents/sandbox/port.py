"""The sandbox port: a command runs on a tree of exactly the given files, and what it gave comes back as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

NOT_EXECUTABLE = 126                # the exit codes that POSIX shells use
NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What a command changed in its copy, against the files that it was given.

    `written`: path → bytes of each new or changed regular file, as they are on the disk, byte for byte. `deleted`: paths of
    given files that are there no more. `refused`: path → why it does not come back: links, pipes, sockets and devices, what is
    locked, too large or too much, paths that may not stand in a repository. Where there are more of those than are worth
    telling, the last key is `…`, and its text says how many more. Each in the order of paths.
    """

    written: dict[str, bytes] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.written or self.deleted or self.refused)


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command gave. A red exit code is data, never an exception.

    `exit_code`: 0 to 255; minus the signal's number where a signal ended it (-9 after a timeout); 127 and 126 where
    it could not be started (no such command; not executable), `stderr` then saying so; -9 where it took more than the
    sandbox allows, at the end of `stderr` saying what.
    `stdout`, `stderr`: text, cut at a bound (`cut` is then true), without the absolute path of the folder it ran in.
    `seconds`: wall time. `files`: path → bytes of those asked for with `collect` that exist at the end. `changes`: what it
    changed, where that was asked for.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    cut: bool = False
    changes: FileChanges | None = None

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, slots=True)
class Executed:
    """What a piece of Python gave. A traceback is data: it stands in `stderr`, and `error` is true.

    `stdout`, `stderr`: what was written meanwhile, by processes that it started too; bounded. `value`: the `repr` of the last
    expression, bounded; None where the last statement is none, or its value is `None`. `error`: an exception went through, or the
    interpreter ended; `stderr` says which. `timed_out`: it was ended for its time. `cut`: something of the texts is missing.
    """

    stdout: str
    stderr: str
    value: str | None = None
    error: bool = False
    timed_out: bool = False
    cut: bool = False


class Interpreter(Protocol):
    """A Python that stays alive in the sandbox: names and files of one piece of code are there for the next."""

    async def execute(self, code: str, timeout: float) -> Executed:  # noqa: ASYNC109  its own time, that it is told about
        """Execute `code` within `timeout` seconds, after what was asked for before.

        Where it takes longer, or ends its interpreter, that one is gone with all that it started; it is said, and the next
        code finds a fresh one, on the same files. Cancelling the awaiting task ends it too.
        Raises RunError where the sandbox does not hold any more: then the code has not run.
        """
        ...


class Sandbox(Protocol):
    """Where commands run."""

    @property
    def name(self) -> str:
        """As `--sandbox NAME` and the journal spell it."""
        ...

    @property
    def owner(self) -> int | None:
        """The user and group id by which commands run, so that what they need is opened to it; None: those of this process."""
        ...

    @property
    def image(self) -> str:
        """The digest of the image in which commands run, where they run in containers; else empty."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes],
        timeout: float | None = None,  # noqa: ASYNC109  the command's own time, that it is told about
        collect: Sequence[str] = (),
        changes: bool = False,
        proxy: Path | None = None,
        denied: Sequence[str] = (),
        packages: Path | None = None,
    ) -> Completed:
        """Run `argv`, without a shell, in a fresh folder that holds exactly `files` (path → bytes).

        `timeout` in seconds; None: as long as the sandbox allows, which may be for ever. `collect` names files to bring back,
        those that exist. `changes`: bring back all that the command changed. `proxy`: the Unix socket of an HTTP proxy; the
        command finds it at the address that `HTTP_PROXY` and its like name, and no network besides.
        `denied`: programs that can't be started or read inside, whatever path, link or other name leads to their file: globs of
        base names, or of absolute paths, as rules about `run` write a program. A sandbox that confines nothing does not hold it.
        `packages`: an environment (`packages/environments.py`) whose Python is `python`, in place of the one that runs this; its
        scripts come first on PATH, and nothing in it can be changed. In outputs it stands as `~packages`.
        Cancelling the awaiting task ends the command and all that it started before the cancellation goes on.
        Raises AnswerInvalid for a refused path in `files` or `collect`, and for a collected path that is no regular
        file or too large; RunError where the machine can't start any process (disk full, no memory), or the sandbox does
        not hold any more: then the command has not run.
        """
        ...

    def interpreter(
        self, *, files: Mapping[str, bytes], timeout: float | None = None, denied: Sequence[str] = (),
        packages: Path | None = None,
    ) -> AbstractAsyncContextManager[Interpreter]:
        """A Python inside, in a fresh folder that holds exactly `files`; it starts with the first code.

        `timeout`: seconds that one interpreter may live; None: until this is left, which ends it and all that it started.
        `denied`: as `run` takes it; the Python that is started here stays. `packages`: as `run` takes it.
        Raises AnswerInvalid for a refused path in `files`.
        """
        ...
