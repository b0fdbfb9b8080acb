"""Drives a run to its end: shows it, and lets a person stop it, once gently and twice at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from json import loads
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from metaflow_agents.cli.asking import TerminalAsker, at_terminal
from metaflow_agents.cli.installed_face import OWN, InstalledFace, renderer
from metaflow_agents.cli.output import page, say, say_json
from metaflow_agents.cli.renderers import Face, PlainFace, SilentFace, live_face, shows_board
from metaflow_agents.cli.told import telling
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.keeping import kept_values
from metaflow_agents.runtime.caps import run_budget
from metaflow_agents.runtime.handle import Run, RunResult
from metaflow_agents.sandbox.process import end_all
from metaflow_agents.schema.binary import announced
from metaflow_agents.schema.event import Resumed
from metaflow_agents.sop.graph import SOPGraph, outputs_of
from metaflow_agents.terminal.reader import standard_input
from metaflow_agents.threads.watchdog import watched
from metaflow_agents.tools.mcp_process import end_all_servers
from metaflow_agents.views.board import Board
from metaflow_agents.views.calling import Calling
from metaflow_agents.views.event_log import readers
from metaflow_agents.views.gave import commands_of
from metaflow_agents.views.page import safe
from metaflow_agents.views.pulse import Pulse
from metaflow_agents.views.roles_table import cast_lines
from metaflow_agents.views.summary import Told, ending_lines, kept_lines
from metaflow_agents.views.wording import amount, listed
from metaflow_agents.views.writing import Writing

if TYPE_CHECKING:
    from metaflow_agents.api.telemetry import Target

_KILLED = 130               # exit status of a process that was interrupted
_HEARD = 0.5                # seconds in which the loop has to hear that it is to stop
_TICK = 0.12                # seconds between two drawings of the board


def drive(run: Run, home: Path, *, json: bool, progress: str = "auto", otel: Target | None = None) -> int:
    """Runs it, shows it, tells how it ended. `home` is its workspace. `progress`: `auto`, `plain`, or an installed renderer;
    `otel`: the collector to which it is exported. Returns the exit status. Raises UsageError where there is no such renderer.
    """
    result = asyncio.run(_driven(run, json, progress, otel))
    with telling(home, run.name) as told:
        if json:
            say_json({**told.as_json(), "outcome": result.outcome, "exit_status": result.exit_status,
                      "outputs": announced(dict(result.outputs))})
        else:
            say([*ending_lines(told, page()), *_overtaken(told)])
    return result.exit_status


def rested(name: str, home: Path, *, json: bool) -> int:
    """Tells of a run that has succeeded, of which nothing is left to do. Status 0: a loop that resumes until then may end."""
    with telling(home, name) as told:
        if json:
            found = told.as_json()
            outputs = {one: told.values.plain(told.outline.payload(one) or "") for one in outputs_of(told.program.sop)
                       if told.outline.version(one)}
            say_json({**found, "outcome": "success", "exit_status": 0, "outputs": outputs})
        else:
            say([f"{name}: has succeeded already; nothing is left to do (`sop fork {name}` branches from it)",
                 *ending_lines(told, page())])
    return 0


def _overtaken(told: Told) -> list[str]:
    """That the next run does not read what this one leaves, where one that began later has succeeded meanwhile."""
    if told.standing != "success":
        return []
    try:
        counts = kept_values(told.home, told.program.sop)
    except UsageError as error:                         # of another run: this one has succeeded
        return page().wrapped(safe(str(error)))
    return [line for name, one in counts.items() if one.began > told.outline.glance.began for line in page().wrapped(page().paint(
        safe(f"the next run reads {one.source} for `{name}`, and not what this one made: `{one.run}` began later"), "yellow"))]


async def _driven(run: Run, json: bool, progress: str, otel: Target | None) -> RunResult:
    kind = None if progress in OWN or json else renderer(progress)
    writing, board = Writing(), progress == "auto" and shows_board(json=json, spoken=run.at_terminal)
    if not json:
        run.watch(writing.hear)
    calling = Calling(writing)
    asker = None if json or not at_terminal() else TerminalAsker(standard_input(sys.stdin.fileno()))
    if asker is not None:
        run.attend(asker)
    async with run as going:
        graph, state = SOPGraph(going.program.sop), going.journal.state
        if json:
            say(_replaced(going), sys.stderr)
        else:
            if going.earlier and not board:
                say([f"{going.name}: goes on after {amount(going.earlier, 'event')}, which `sop log {going.name}` tells"])
            if board or kind is not None:
                say(_replaced(going), sys.stderr)
            say(cast_lines(going.program, state.models, state.latest, page()))
            if state.opened is not None and not going.earlier:
                say(kept_lines(state.opened.kept, state.opened.kept_without, page()))
        plain = going.program.plain()

        def blob(digest: str) -> Any:
            return loads(going.journal.blob(digest))

        def lines() -> Face:
            return PlainFace(readers(plain), blob, _pulse(going, calling), calling, commands_of(plain))

        face: Face = SilentFace() if json else lines()
        if kind is not None:
            face = InstalledFace(progress, kind, going.name, plain, blob, lines)
        if board:
            budget = run_budget(going.program, state.budget)
            face = live_face(Board(going.program, graph, state, budget, lambda: going.waiting, writing, blob))
        if asker is not None:
            asker.stage = face
        late: list[str] = []
        try:
            with _stopping(going, face):
                async with _exported(going, otel, face, late):
                    return await _shown(going, face)
        finally:
            face.close()
            say(late, sys.stderr)


@asynccontextmanager
async def _exported(going: Run, otel: Target | None, face: Face, late: list[str]) -> AsyncIterator[None]:
    """Exports the run while this is open. What a board only shows for a moment comes to `late`, to be told once it has gone."""
    if otel is None:
        yield
        return
    from metaflow_agents.api.telemetry import exporting

    def tell(text: str) -> None:
        face.note(text)
        if not isinstance(face, SilentFace):
            late.append(f"sop: {text}")

    async with exporting(going.journal, otel, tell=tell):
        yield


def _replaced(going: Run) -> list[str]:
    """That other versions of packages go on with it; plain lines tell it with the event."""
    told = [event.replaced for _, event in going.journal.events(Resumed)] if going.earlier else []
    return [f"sop: {going.name} goes on with {listed([*told[-1]])}"] if told and told[-1] else []


def _pulse(going: Run, calling: Calling) -> Pulse:
    def elapsed() -> float:
        state = going.journal.state                     # whose own time stands still between two events
        return state.elapsed + max(time.time() - state.latest, 0.0)

    return Pulse(lambda: going.journal.state.active, elapsed, time.monotonic, time.time,
                 lambda firing: calling.told_of(firing, time.time()))


async def _shown(going: Run, face: Face) -> RunResult:
    """The result; until then every event goes to the face, which is drawn a few times a second."""
    async def hear() -> None:
        number = 0
        async for event in going.events():
            number += 1
            (face.hear if number > going.earlier else face.recall)(event)

    async def draw() -> None:
        while True:
            face.draw()
            await asyncio.sleep(_TICK)

    hearing, drawing = asyncio.create_task(hear()), asyncio.create_task(draw())
    try:
        result = await going.result()
        await hearing
        return result
    finally:
        for task in (hearing, drawing):
            task.cancel()
        await asyncio.wait([hearing, drawing])


@contextmanager
def _stopping(going: Run, face: Face) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) stops the run and keeps its state; the second ends the process at once, and so does the first
    where the event loop stands still: the journal has what was committed.

    A handler of the process and not of the loop: it answers also while somebody's function keeps the loop from turning.
    """
    loop = asyncio.get_running_loop()
    asked = 0

    def stop() -> None:
        face.note("stopping… (again to kill)")
        going.stop()

    def kill() -> None:
        try:
            end_all()
            end_all_servers()
            face.close()                    # fails where the signal came in the middle of a line that is being written
        finally:
            os._exit(_KILLED)

    def handle(_: int, __: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            loop.call_soon_threadsafe(stop)
            watch.unless_heard(_HEARD, kill)
        else:
            kill()

    with watched() as watch:
        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
