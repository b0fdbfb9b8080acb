"""What every sandbox does around a command: its copy, its turn, its end, what is shown and what comes back."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from metaflow_agents.sandbox.copies import Copy, refuse
from metaflow_agents.sandbox.port import Completed
from metaflow_agents.sandbox.process import Ended, ProcessGroup
from metaflow_agents.sandbox.shown import Shown
from metaflow_agents.threads import Threads

SAME_EVERYWHERE = {"LANG": "C.UTF-8", "TZ": "UTC", "USER": "sop", "LOGNAME": "sop", "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONHASHSEED": "0"}
"""Variables that make a command do the same on every machine."""


class Carrier(ABC):
    """Commands on this machine, `parallel` of them at once; more wait for their turn, and their time does not run.

    A sandbox inherits from it, and says who owns the copy, how a command starts in it, and under which names it shows.
    """

    owner: int | None = None

    def __init__(self, *, parallel: int = 32) -> None:
        self._threads = Threads(parallel, "command")

    async def run(
        self,
        argv: Sequence[str],
        *,
        files: Mapping[str, bytes],
        timeout: float | None = None,  # noqa: ASYNC109  the command's own time, that it is told about
        collect: Sequence[str] = (),
    ) -> Completed:
        """See `Sandbox.run`. `python` and `python3` are the interpreter that runs this.

        In outputs and collected files the copy stands as `.`, what lies around it as `..`, and this Python as `~python`,
        so that they are the same in every run and on every machine.
        """
        refuse(files, collect)
        command = _Command(self, argv, files, timeout, collect)
        return await self._threads.run(command.run, command.stop)

    def carry_out(self, argv: Sequence[str], *, files: Mapping[str, bytes], timeout: float) -> Completed:
        """The same from a thread that may block."""
        return _Command(self, argv, files, timeout, ()).run()

    @abstractmethod
    def group(self, copy: Copy, argv: Sequence[str], timeout: float | None) -> ProcessGroup:
        """A command that is about to start on a copy."""

    @abstractmethod
    def shown(self, copy: Copy) -> Shown:
        """How its outputs are shown."""


class _Command:
    """One command from its folder's making to its removal; `run` blocks, `stop` may come from another thread."""

    def __init__(self, carrier: Carrier, argv: Sequence[str], files: Mapping[str, bytes], timeout: float | None,
                 collect: Sequence[str]) -> None:
        self._carrier, self._files = carrier, dict(files)
        program = sys.executable if argv[0] in ("python", "python3") else argv[0]
        self._argv, self._timeout, self._collect = (program, *argv[1:]), timeout, tuple(collect)
        self._group: ProcessGroup | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        if self._group is not None:
            self._group.stop()

    def run(self) -> Completed:
        with Copy(self._files, self._carrier.owner) as copy:
            return self._completed(copy, self._ended(copy))

    def _ended(self, copy: Copy) -> Ended:
        self._group = self._carrier.group(copy, self._argv, self._timeout)
        try:
            if self._stopped:               # cancelled while the files were written
                self._group.stop()
            return self._group.run()
        finally:
            group, self._group = self._group, None
            group.close()

    def _completed(self, copy: Copy, ended: Ended) -> Completed:
        shown = self._carrier.shown(copy)
        stdout, cut_out = shown.output(ended.stdout)
        stderr, cut_err = shown.output(ended.stderr)
        if ended.why:
            stderr = f"{stderr}{'' if stderr.endswith(chr(10)) or not stderr else chr(10)}ended by the sandbox: {ended.why}\n"
        found = {} if self._stopped else copy.collected(self._collect)
        files = {name: shown.of(data) for name, data in found.items()}
        return Completed(ended.exit_code, stdout, stderr, ended.seconds, ended.timed_out, files, cut_out or cut_err)
