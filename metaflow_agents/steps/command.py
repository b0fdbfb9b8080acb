"""`run:` steps and `check: {run: …}`: a command on a tree of exactly the file versions that its step reads."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metaflow_agents.engine.work import Activation, Work
from metaflow_agents.errors import AttemptFailed
from metaflow_agents.journal.tree import Tree
from metaflow_agents.journal.values import Values
from metaflow_agents.prompts import MISSING, CollectionView, from_package, render, render_args
from metaflow_agents.prompts.rendering import sole_expression
from metaflow_agents.sandbox.command import is_pytest, parse_argv, parse_parse, with_junit_file
from metaflow_agents.sandbox.port import Completed, Sandbox
from metaflow_agents.sandbox.report import read_junit
from metaflow_agents.sandbox.testing import COLLECTED, disagreement, guarded, not_believed
from metaflow_agents.schema.payload import Data, Patch
from metaflow_agents.schema.sop import SOP
from metaflow_agents.schema.step import Step
from metaflow_agents.settings import Settings
from metaflow_agents.steps.function import plain
from metaflow_agents.steps.side_effects import Observations
from metaflow_agents.steps.validation import Acceptance
from metaflow_agents.texts.cutting import in_middle
from metaflow_agents.texts.strict_json import NotJSON, read

if TYPE_CHECKING:
    from metaflow_agents.packages.lock import Lock

_REPORT = ".sop-junit.xml"
_TOLD = 6000


class Commands:
    """Renders a command's arguments, runs it, and reads what it made."""

    def __init__(self, sop: SOP, acceptance: Acceptance, tree: Tree, values: Values, observations: Observations,
                 sandbox: Sandbox, settings: Settings | None = None) -> None:
        self._sop, self._acceptance, self._tree, self._values = sop, acceptance, tree, values
        self._observations, self._sandbox, self._settings = observations, sandbox, settings or Settings()

    async def work(self, activation: Activation) -> Work:
        """The result of a `run:` step. Raises AttemptFailed where `parse: json` finds no file, AnswerInvalid."""
        step = self._sop.steps[activation.key.step]

        async def look() -> Any:
            async with self.packages(activation) as packages:
                return await self._result(step, activation, packages)
        value = await self._observations.once(f"{activation.key}/run", look)
        if step.parse is not None and step.parse.startswith("json"):
            return self._acceptance.accept(activation, value)
        return Work(Data(value=value))

    async def check(self, command: str | tuple[str, ...], activation: Activation, work: Work, key: str) -> str | None:
        """What a `check` says against an answer, which lies in its tree; None where it is content."""
        async def look() -> Any:
            tree = self._with_answer(activation, work)
            if undeclared := self._undeclared(activation, tree):
                return undeclared
            async with self.packages(activation) as packages:
                done = await self._sandbox.run(self._argv(command, activation), files=tree, packages=packages,
                                               timeout=_check_time(self._sop.steps[activation.key.step]))
            return None if done.ok else said(done)
        told = await self._observations.once(key, look)
        return None if told is None else str(told)

    def stated(self, activation: Activation) -> str:
        """What the author of an answer is told of the command that it has to pass; empty where there is none."""
        step = self._sop.steps[activation.key.step]
        check = step.check
        if check is None or check.run is None or not check.told:
            return ""
        seconds = check.time or step.timeout
        return from_package("check", {"command": shlex.join(self._argv(check.run, activation)), "repairs": check.repairs,
                                      "seconds": None if seconds is None else f"{seconds:g}"})

    async def own(self, argv: Sequence[str], key: str, *, files: Mapping[str, bytes], timeout: float,  # noqa: ASYNC109
                  collect: str) -> dict[str, Any]:
        """What came of a command that no SOP wrote, on files of its own: `exit_code`, `timed_out`, the end of `stderr`, and
        `written`, the text of the file that `collect` names, if there is one. `timeout` in seconds.
        """
        async def look() -> Any:
            done = await self._sandbox.run(argv, files=files, timeout=timeout, collect=(collect,))
            written = done.files[collect].decode(errors="replace") if collect in done.files else None
            return {"exit_code": done.exit_code, "timed_out": done.timed_out, "stderr": done.stderr[-_TOLD:], "written": written}
        found: dict[str, Any] = await self._observations.once(key, look)
        return found

    async def _result(self, step: Step, activation: Activation, packages: Path | None) -> Any:
        argv = self._argv(step.run or "", activation)
        kind, file = (None, None) if step.parse is None else parse_parse(step.parse)
        if kind == "junit" and file is None and is_pytest(argv):
            argv, file = with_junit_file(argv, _REPORT), _REPORT
        tests = guarded(argv) if kind == "junit" else None
        done = await self._sandbox.run(tests or argv, files=self.files(activation), timeout=_patience(step),
                                       collect=(file,) if file else (), packages=packages)
        if kind == "json":
            return _json(done, file or "")
        if kind == "junit":
            if file not in done.files:
                return _no_report(done)
            result = await read_junit(done.files[file], done.exit_code, file)
            why = self._undeclared(activation, self.files(activation)) if result["ok"] else ""
            if result["ok"] and tests and not why:
                why = await self._doubt(argv, done.files[file], step, activation, packages)
            return not_believed(result, why) if why else result
        return {"ok": done.ok, "exit_code": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}

    async def _doubt(self, argv: Sequence[str], report: bytes, step: Step, activation: Activation, packages: Path | None) -> str:
        """Why a green report of pytest is not believed; empty where it is."""
        apart = guarded(argv, COLLECTED)
        done = await self._sandbox.run(apart or argv, files=self.files(activation), timeout=_patience(step), collect=(COLLECTED,),
                                       packages=packages)
        return disagreement(report, done.files.get(COLLECTED))

    def _with_answer(self, activation: Activation, work: Work) -> dict[str, bytes]:
        """The files that the step reads, and over them those of the answer: its own, or the one that it is rendered into."""
        tree, answer = self.files(activation), work.payload
        if isinstance(answer, Patch):
            for path in answer.deleted:
                tree.pop(path, None)
            tree.update((path, self._blob(work, blob)) for path, blob in answer.written.items())
        else:
            artifact = self._sop.steps[activation.key.step].makes.artifact
            value = answer.value if isinstance(answer, Data) else answer.value(partial(self._blob, work))
            tree |= self._tree.rendered(artifact, self._candidate(artifact, activation, value))
        return tree

    def _blob(self, work: Work, name: str) -> bytes:
        """What an answer names: it brings it along, or the journal has it."""
        return work.blobs[name] if name in work.blobs else self._values.data(name)

    def _candidate(self, artifact: str, activation: Activation, value: Any) -> Any:
        """The artifact as far as this activation knows it: of a collection what it reads of it, what it comes after, its item."""
        if activation.item is None:
            return value
        read = self._values.at(artifact, activation.read.get(artifact, 0))
        before = read if isinstance(read, CollectionView) else CollectionView({})
        prior = activation.scope["prior"]
        return CollectionView({**before, **prior, activation.item.key: value}, missing=before.missing)

    def _argv(self, command: str | tuple[str, ...], activation: Activation) -> tuple[str, ...]:
        arguments = list[str]()
        for argument in parse_argv(command):
            value = render_args(argument, activation.scope) if sole_expression(argument) is not None else None
            if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                arguments += value
            else:
                arguments.append(render(argument, activation.scope))
        return tuple(arguments)

    @asynccontextmanager
    async def packages(self, activation: Activation) -> AsyncIterator[Path | None]:
        """The environment of the commands of an activation, made from the lock that its step reads; None where it names none, or
        one that it `wants` or `sees` and nothing made.

        Raises AttemptFailed where it can't be made.
        """
        lock = self._lock(activation)
        if lock is None:
            yield None
            return
        from metaflow_agents.packages.environments import Environments

        async with Environments(self._settings.packages, self._settings.pip_environment).held(lock) as environment:
            yield environment

    def _lock(self, activation: Activation) -> Lock | None:
        name = self._sop.steps[activation.key.step].packages
        if name is None or activation.scope[name] is MISSING:
            return None
        from metaflow_agents.packages.lock import parse_lock

        return parse_lock(plain(activation.scope[name]), name)

    def _undeclared(self, activation: Activation, tree: Mapping[str, bytes]) -> str:
        """Which dependencies of the product the lock of the step lacks; empty where it has all, or the step names no lock."""
        lock = self._lock(activation)
        if lock is None:
            return ""
        from metaflow_agents.packages.declared import outside

        return outside(tree, lock)

    def files(self, activation: Activation) -> dict[str, bytes]:
        """The tree of an activation: exactly the versions that its step reads, and what the items before it made."""
        tree = self._tree.files(activation.read)
        for patch in activation.patches():
            for path in patch.deleted:
                tree.pop(path, None)
            tree.update((path, self._values.data(blob)) for path, blob in patch.written.items())
        return tree


def _patience(step: Step) -> float | None:
    """Past the step's own time, which fails the attempt, so that the sandbox's does not come before it."""
    return None if step.timeout is None else step.timeout + 1


def _check_time(step: Step) -> float | None:
    return _patience(step) if step.check is None or step.check.time is None else step.check.time


def said(done: Completed) -> str:
    """What a failed command tells its author: how it ended, and what it printed, long output without its middle."""
    output = "\n".join(part.strip("\n") for part in (done.stdout, done.stderr) if part.strip())
    return f"{_ended(done)}\n{in_middle(output, _TOLD)}"


def _ended(done: Completed) -> str:
    if done.timed_out:
        return f"it did not end by itself: it was ended after {done.seconds:.0f} seconds, the longest that it may take"
    if done.exit_code < 0:
        return f"it was ended by signal {-done.exit_code}"
    means = {127: ": there is no such program", 126: ": it can't be executed"}
    return f"exit code {done.exit_code}{means.get(done.exit_code, '')}"


def _json(done: Completed, file: str) -> Any:
    if file not in done.files:
        raise AttemptFailed(f"the command wrote no {file}: {said(done)}")
    try:
        return read(done.files[file])
    except NotJSON as error:
        raise AttemptFailed(f"{file} is not JSON: {error}; {said(done)}") from None


def _no_report(done: Completed) -> dict[str, Any]:
    """A test runner that ended without a report (a crash, a usage error) is one error, never a success."""
    failure = {"id": "", "kind": "error", "exception": "", "message": said(done), "place": ""}
    return {"ok": False, "exit_code": done.exit_code, "total": 0, "passed": 0, "failed": 0, "errors": 1, "skipped": 0,
            "failures": [failure]}
