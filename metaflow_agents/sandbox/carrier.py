"""What every sandbox does around a command: its copy, its turn, its end, what is shown and what comes back."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from metaflow_agents.sandbox.channel import Channel
from metaflow_agents.sandbox.copies import Copy, refuse
from metaflow_agents.sandbox.port import Completed, Interpreter
from metaflow_agents.sandbox.process import EndedProcess, ProcessGroup
from metaflow_agents.sandbox.sanitised import OutputSanitiser
from metaflow_agents.sandbox.session import session
from metaflow_agents.threads.blocking import Threads

SAME_EVERYWHERE = {"LANG": "C.UTF-8", "TZ": "UTC", "USER": "sop", "LOGNAME": "sop", "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONHASHSEED": "0"}
"""Variables that make a command do the same on every machine."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be started on a copy. `timeout` in seconds; None: as long as the sandbox allows; of a command with a `channel`,
    which may have to wait for its next words, without end. `denied`, `packages`: see `Sandbox.run`.
    """

    argv: tuple[str, ...]
    timeout: float | None = None
    proxy: Path | None = None
    channel: Channel | None = None
    denied: tuple[str, ...] = ()
    packages: Path | None = None


class Carrier(ABC):
    """Commands on this machine, `parallel` of them at once; more wait for their turn, and their time does not run.

    A sandbox inherits from it, and says who owns the copy, how a command starts in it, and under which names it shows.
    """

    owner: int | None = None
    room = 0                                # of copies: see `Copy`
    image = ""                              # see `Sandbox`

    def __init__(self, *, parallel: int = 32) -> None:
        self._threads = Threads(parallel, "command")

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
        """See `Sandbox.run`. `python` and `python3` are the interpreter that runs this.

        In outputs and collected files the copy stands as `.`, what lies around it as `..`, and this Python as `~python`,
        so that they are the same in every run and on every machine. Changes are what they are.
        """
        refuse(files, collect)
        order = _order(argv, timeout, proxy, denied, packages)
        command = _Command(self, order, files, collect, changes)
        return await self._threads.run(command.run, command.stop)

    def interpreter(
        self, *, files: Mapping[str, bytes], timeout: float | None = None, denied: Sequence[str] = (),
        packages: Path | None = None,
    ) -> AbstractAsyncContextManager[Interpreter]:
        """See `Sandbox.interpreter`."""
        refuse(files, ())

        def start(copy: Copy, argv: tuple[str, ...], channel: Channel) -> ProcessGroup:
            argv = argv if packages is None else ("python", *argv[1:])
            return self.group(copy, Order(argv, timeout, channel=channel, denied=tuple(denied), packages=packages))

        return session(Copy(files, self.owner, self.room), start, partial(self.shown, packages=packages))

    def carry_out(self, argv: Sequence[str], *, files: Mapping[str, bytes], timeout: float) -> Completed:
        """The same from a thread that may block."""
        return _Command(self, _order(argv, timeout), files, (), False).run()

    @abstractmethod
    def group(self, copy: Copy, order: Order) -> ProcessGroup:
        """A command that is about to start on a copy."""

    @abstractmethod
    def shown(self, copy: Copy, packages: Path | None = None) -> OutputSanitiser:
        """How its outputs are shown. `packages`: those of the command, see `Sandbox.run`."""


def _order(argv: Sequence[str], timeout: float | None, proxy: Path | None = None, denied: Sequence[str] = (),
           packages: Path | None = None) -> Order:
    program = sys.executable if argv[0] in ("python", "python3") and packages is None else argv[0]
    return Order((program, *argv[1:]), timeout, proxy, denied=tuple(denied), packages=packages)


class _Command:
    """One command from its folder's making to its removal; `run` blocks, `stop` may come from another thread."""

    def __init__(self, carrier: Carrier, order: Order, files: Mapping[str, bytes], collect: Sequence[str], changes: bool) -> None:
        self._carrier, self._order, self._files = carrier, order, dict(files)
        self._collect, self._changes = tuple(collect), changes
        self._group: ProcessGroup | None = None
        self._begun = 0
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        group = self._group                 # once: the other thread takes it away when the command has ended
        if group is not None:
            group.stop()

    def run(self) -> Completed:
        with Copy(self._files, self._carrier.owner, self._carrier.room) as copy:
            return self._completed(copy, self._ended(copy))

    def _ended(self, copy: Copy) -> EndedProcess:
        self._group = self._carrier.group(copy, self._order)
        try:
            if self._stopped:               # cancelled while the files were written
                self._group.stop()
            return self._group.run()
        finally:
            group, self._group = self._group, None
            self._begun = group.begun
            group.close()

    def _completed(self, copy: Copy, ended: EndedProcess) -> Completed:
        shown = self._carrier.shown(copy, self._order.packages)
        stdout, cut_out = shown.output(ended.stdout)
        stderr, cut_err = shown.output(ended.stderr)
        stderr = ended.said_at_the_end_of(stderr)
        found = {} if self._stopped else copy.collected(self._collect)
        files = {name: shown.of(data) for name, data in found.items()}
        changes = copy.changes(self._begun) if self._changes and not self._stopped else None
        return Completed(ended.exit_code, stdout, stderr, ended.seconds, ended.timed_out, files, cut_out or cut_err, changes)
