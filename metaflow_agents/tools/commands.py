"""`run` and `python`: commands and scratch code inside the sandbox, on a copy of what the activation sees."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, Protocol

from pydantic import Field

from metaflow_agents.errors import AnswerInvalid
from metaflow_agents.policy.action import Action
from metaflow_agents.sandbox.command import CommandWritten, parse_argv
from metaflow_agents.sandbox.port import Completed, FileChanges, Interpreter, Sandbox
from metaflow_agents.schema import paths
from metaflow_agents.schema.tools import Effect
from metaflow_agents.tools.builtin import Arguments, BuiltIn
from metaflow_agents.tools.port import Situation, ToolResult

SECONDS = 120.0                     # of a command that asks for none
LONGEST = 600.0


class Gateway(Protocol):
    """The way out for a command that may reach some hosts: a proxy in this process."""

    def opened(self, situation: Situation) -> AbstractAsyncContextManager[Path]:
        """The Unix socket of a proxy that lets through what the activation's role may reach now."""
        ...


class _Running(Arguments):
    command: str | list[str] = Field(
        description="a program and its arguments, as a text that is split into words, or one by one; no shell reads it")
    seconds: float = Field(SECONDS, gt=0, le=LONGEST, description="how long it may take")


class RunArguments(BuiltIn[_Running]):
    """Run a command in a sandbox, on a copy of the files that you see: no network, and of the disk only that copy. What it
    writes to files that you make is kept; all else is gone when it ends.
    """

    name: ClassVar[str] = "run"
    takes = _Running

    def __init__(self, sandbox: Sandbox, gateway: Gateway | None = None) -> None:
        self._sandbox, self._gateway = sandbox, gateway

    def would(self, given: _Running) -> Action:
        """`run(COMMAND LINE)`. Raises AnswerInvalid for what only a shell would understand."""
        words = _argv(given.command)
        return Action("run", shlex.join(words), words)

    def effect(self, arguments: Mapping[str, object]) -> Effect:
        """Nothing outside of its copy, unless it has a way out."""
        return "none" if self._gateway is None else "once"

    async def do(self, given: _Running, situation: Situation) -> ToolResult:
        """Exit code and output, and what became of the files."""
        if self._gateway is None:
            return await self._told(await self._run(given, situation, None), situation)
        async with self._gateway.opened(situation) as socket:
            return await self._told(await self._run(given, situation, socket), situation)

    async def _run(self, given: _Running, situation: Situation, socket: Path | None) -> Completed:
        return await self._sandbox.run(_argv(given.command), files=situation.files, timeout=given.seconds, changes=True,
                                       proxy=socket, denied=situation.denied, packages=await situation.packages())

    async def _told(self, done: Completed, situation: Situation) -> ToolResult:
        written, deleted, lost = _kept(done.changes, situation)
        for path in [*written, *deleted]:
            try:
                await situation.granted(Action("write", path))
            except AnswerInvalid as error:
                lost[path] = "; ".join(error.faults)
                written.pop(path, None)
        deleted = [path for path in deleted if path not in lost]
        late = f"[ended after {done.seconds:.0f} seconds: it ran too long]\n" if done.timed_out else ""
        parts = [f"exit code {done.exit_code}\n{late}",
                 f"--- stdout\n{done.stdout}" if done.stdout else "", f"--- stderr\n{done.stderr}" if done.stderr else "",
                 f"--- changed: {', '.join([*sorted(written), *(f'{path} (deleted)' for path in deleted)])}\n"
                 if written or deleted else "",
                 "".join(f"--- not kept: `{path}`: {why}\n" for path, why in sorted(lost.items())[:20])]
        text = "".join(part if part.endswith("\n") or not part else f"{part}\n" for part in parts)
        # A way out means that what it prints may come from anywhere.
        source = "what a command with a way to the network printed" if self._gateway is not None else ""
        return ToolResult(text, error=not done.ok, untrusted=source, written=written, deleted=tuple(deleted))


def _argv(command: str | list[str]) -> tuple[str, ...]:
    try:
        return parse_argv(command)
    except CommandWritten as fault:
        raise AnswerInvalid([f"`command`: {fault.message}; {fault.mend}"]) from None


def _kept(changes: FileChanges | None, situation: Situation) -> tuple[dict[str, bytes], list[str], dict[str, str]]:
    """Of what a command did to the files: written and deleted within what the activation makes, and why the rest is lost."""
    if changes is None:
        return {}, [], {}
    lost = dict(changes.refused)
    outside = "outside of what this step makes" if situation.patterns else "this step makes no files"
    written = {path: data for path, data in changes.written.items() if paths.matches(situation.patterns, path)}
    deleted = [path for path in changes.deleted if paths.matches(situation.patterns, path)]
    known = {*written, *deleted}
    lost.update((path, outside) for path in (*changes.written, *changes.deleted) if path not in known)
    return written, deleted, lost


class _Coding(Arguments):
    code: str = Field(min_length=1, description="Python; the value of a last expression is shown")
    seconds: float = Field(60.0, gt=0, le=LONGEST, description="how long it may take")


class Python(BuiltIn[_Coding]):
    """Run Python in a scratch interpreter inside a sandbox. What you define stays for your later calls in this task; the files
    that you see lie in its folder as they were when you first used it; what it writes there is not kept.
    """

    name: ClassVar[str] = "python"
    takes = _Coding

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def would(self, given: _Coding) -> Action:
        """`python`."""
        return Action("python")

    async def do(self, given: _Coding, situation: Situation) -> ToolResult:
        """What it printed, and the value. After a crash of the run, earlier code of this activation is run again first."""
        packages = await situation.packages()
        kept = await situation.kept("python", lambda: _Session(self._sandbox, situation, packages))
        async with kept.turn:
            if not kept.caught_up:
                for earlier in situation.earlier(self.name):
                    before = _Coding.model_validate(earlier)
                    await kept.interpreter.execute(before.code, before.seconds)
                kept.caught_up = True
            done = await kept.interpreter.execute(given.code, given.seconds)
        parts = [done.stdout, f"--- stderr\n{done.stderr}" if done.stderr else "",
                 f"--- value\n{done.value}\n" if done.value is not None else "",
                 "[it ran too long and was ended: what was defined is gone]\n" if done.timed_out else ""]
        text = "".join(part if part.endswith("\n") or not part else f"{part}\n" for part in parts)
        content = done.stdout if done.value is None else done.value
        return ToolResult(text or "[no output]", error=done.error or done.timed_out, content=content)


class _Session:
    """The interpreter of one activation."""

    def __init__(self, sandbox: Sandbox, situation: Situation, packages: Path | None) -> None:
        self.turn = asyncio.Lock()
        self.caught_up = False
        self._opened = sandbox.interpreter(files=dict(situation.files_first(Python.name)), timeout=LONGEST,
                                           denied=situation.denied, packages=packages)
        self.interpreter: Interpreter

    async def __aenter__(self) -> _Session:
        self.interpreter = await self._opened.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._opened.__aexit__(*raised)  # type: ignore[arg-type]
