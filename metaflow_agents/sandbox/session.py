"""The scratch interpreter: one Python in the sandbox that several pieces of code share, and a fresh one where it ended."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from metaflow_agents.sandbox.channel import Channel, framed
from metaflow_agents.sandbox.copies import Copy
from metaflow_agents.sandbox.output import Output
from metaflow_agents.sandbox.port import Executed
from metaflow_agents.sandbox.process import EndedProcess, ProcessGroup
from metaflow_agents.sandbox.sanitised import OutputSanitiser
from metaflow_agents.texts.strict_json import read
from metaflow_agents.threads.blocking import Threads

CODE_BYTES = 1 << 20
Start = Callable[[Copy, tuple[str, ...], Channel], ProcessGroup]
Answer = tuple[bytes, Output, Output]


@asynccontextmanager
async def session(copy: Copy, start: Start, shown: Callable[[Copy], OutputSanitiser]) -> AsyncIterator[Session]:
    """A session on a copy, which is laid out here, and removed at the end with all that still runs on it."""
    threads = Threads(2, "interpreter")                 # of its own: it must not keep commands from their turn
    try:
        await threads.run(copy.__enter__)
        made = Session(copy, start, shown(copy), threads)
        try:
            yield made
        finally:
            await made.end()
    finally:
        if copy.base != Path():
            await threads.run(copy.__exit__)


class Session:
    """Fits `Interpreter`. One piece of code at a time: others wait."""

    def __init__(self, copy: Copy, start: Start, shown: OutputSanitiser, threads: Threads) -> None:
        self._copy, self._start, self._shown, self._threads = copy, start, shown, threads
        self._turn = asyncio.Lock()
        self._python: _Python | None = None

    async def execute(self, code: str, timeout: float) -> Executed:  # noqa: ASYNC109
        """See `Interpreter.execute`."""
        if len(code.encode(errors="replace")) > CODE_BYTES:
            return Executed("", f"the code is longer than {CODE_BYTES:,} bytes: write it to a file, and import it\n", error=True)
        async with self._turn:
            if self._python is None:
                self._python = _Python(self._copy, self._start, self._threads)
            python = self._python
            try:
                answer = await python.asked(code, timeout)
            except BaseException:
                await self.end()
                raise
            if answer is None or (told := python.read(answer[0])) is None:
                return await self._gone(python, "" if answer is None else "it wrote an answer of its own",
                                        answer[1:] if answer else None)
            stdout, stderr, cut = self._texts(answer[1], answer[2])
            value, error, shortened = told
            return Executed(stdout, stderr, self._text(value), error, False, cut or shortened)

    async def end(self) -> None:
        """End the interpreter, if there is one, and all that it started."""
        python, self._python = self._python, None
        if python is not None:
            await python.end()

    async def _gone(self, python: _Python, why: str, taken: tuple[Output, Output] | None) -> Executed:
        """It has ended, or must: what is told of that. Raises RunError where it never began."""
        late = not why and not python.ended.done()
        self._python = None
        ended = await python.end()
        outputs = taken or (ended.stdout, ended.stderr)
        stdout, stderr, cut = self._texts(*outputs)
        if late:
            why = f"it took longer than {python.timeout:g} seconds"
        elif not why:
            why = ended.why or f"it ended by itself (exit code {ended.exit_code})"
        line = f"the interpreter is gone: {why}; the next code finds a fresh one, without the names, on the same files\n"
        stderr = f"{stderr}{'' if stderr.endswith(chr(10)) or not stderr else chr(10)}{line}"
        return Executed(stdout, stderr, None, True, late or ended.timed_out, cut)

    def _texts(self, out: Output, err: Output) -> tuple[str, str, bool]:
        stdout, cut_out = self._shown.output(out)
        stderr, cut_err = self._shown.output(err)
        return stdout, stderr, cut_out or cut_err

    def _text(self, value: str | None) -> str | None:
        if value is None:
            return None
        return self._shown.of(value.encode("utf-8", "replace")).decode()


class _Python:
    """One living interpreter: its process, watched in a thread, and the talk with it."""

    def __init__(self, copy: Copy, start: Start, threads: Threads) -> None:
        self.timeout = 0.0
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Answer] | None = None
        self._asked = ""
        self._channel = Channel(self._hear)
        argv = (sys.executable, "-P", "-c", _script(), str(self._channel.theirs.fileno()))
        try:
            self._group = start(copy, argv, self._channel)
        except BaseException:
            self._channel.close()
            raise
        self.ended = asyncio.ensure_future(threads.run(self._group.run, self._group.stop))

    async def asked(self, code: str, timeout: float) -> Answer | None:  # noqa: ASYNC109
        """What it answered; None where it ended, or its time did."""
        self.timeout = timeout
        self._asked = _fresh()
        answer = self._answer = self._loop.create_future()
        request = framed(json.dumps({"id": self._asked, "code": code}).encode())
        sending = asyncio.ensure_future(self._loop.sock_sendall(self._channel.ours, request))
        try:
            await asyncio.wait({answer, self.ended}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._answer = None
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return answer.result() if answer.done() else None

    def read(self, answer: bytes) -> tuple[str | None, bool, bool] | None:
        """Value, whether there was an error, and whether something is cut; None where it is no answer to what was asked."""
        try:
            told = read(answer)
            fine = isinstance(told, dict) and told["id"] == self._asked
            value, error, cut = told["value"], told["error"], told["cut"]
        except (ValueError, KeyError, TypeError):
            return None
        typed = (value is None or isinstance(value, str)) and isinstance(error, bool) and isinstance(cut, bool)
        return (value, error, cut) if fine and typed else None

    async def end(self) -> EndedProcess:
        """End it, where it has not. Raises RunError where it could not be held, or can't be ended."""
        try:
            if not self.ended.done():
                self._group.stop()
            return await self.ended
        finally:
            self._group.close()
            self._channel.close()

    def _hear(self, answer: bytes, stdout: Output, stderr: Output) -> None:
        """Called in the watching thread."""
        self._loop.call_soon_threadsafe(self._settle, (answer, stdout, stderr))

    def _settle(self, answer: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)


def _fresh() -> str:
    from secrets import token_hex

    return token_hex(16)


@cache
def _script() -> str:
    return Path(__file__).with_name("repl_worker.py").read_text(encoding="utf-8")
