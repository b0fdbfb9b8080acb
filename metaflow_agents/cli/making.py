"""`sop new`, `sop test` and `sop export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metaflow_agents.cli.options import WORKSPACE, Json, RunName, Sandbox, SOPFile, Workspace
from metaflow_agents.cli.output import page, say, say_json


def new(name: Annotated[str, typer.Argument(metavar="NAME", help="The SOP's name.")],
        folder: Annotated[Path | None, typer.Option("--folder", metavar="DIR", help="Where it is written; by default NAME/.")
                          ] = None) -> int:
    """Writes a SOP to start from, with roles, prompts and tests."""
    from metaflow_agents.starting import new_sop

    files = new_sop(name, Path(name) if folder is None else folder)
    say([*(f"wrote {file}" for file in files), "", "look at it, then:", f"  sop check {files[0]}", f"  sop test {files[0]}",
         f'  sop run {files[0]} --model dry --topic "tea"'])
    return 0


def export(name: RunName,
           recording: Annotated[Path | None, typer.Option(
               "--recording", metavar="FILE", help="Its calls and answers, for `--model replay:FILE`. Ends in .jsonl.")] = None,
           answered_by: Annotated[str | None, typer.Option(
               "--answered-by", metavar="TEXT", help="Who answered, in your words; it stands in the recording.")] = None,
           also: Annotated[list[str] | None, typer.Option(
               "--also", metavar="RUN", help="A run of the same SOP and inputs that went another way: its calls too. "
               "May be repeated.")] = None,
           workspace: Workspace = WORKSPACE) -> int:
    """Writes what a run holds into a file."""
    from contextlib import ExitStack

    from metaflow_agents.errors import UsageError
    from metaflow_agents.journal.glance import RawJournal
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.models.recording import ENDING, save
    from metaflow_agents.views.wording import amount

    if recording is None:
        raise UsageError(f"what of {name} shall be written? `--recording FILE{ENDING}` writes its calls and their answers")
    if recording.suffix != ENDING:
        raise UsageError(f"`--recording {recording}`: a recording's name ends in `{ENDING}`, by which `replay:` knows it")
    if answered_by is None:
        raise UsageError("who answered? `--answered-by \"…\"` stands in the recording, for whoever replays it")
    with ExitStack() as opened:
        first, *others = [opened.enter_context(RawJournal(journal_path(workspace, run))) for run in (name, *(also or ()))]
        calls = save(first, recording, answered_by, *others)
    say([f"wrote {recording}: {amount(calls, 'call')}; answered from it again: --model replay:{recording}"])
    return 0


def test(file: SOPFile,
         cases: Annotated[list[str] | None, typer.Argument(metavar="CASE", help="Only these tests.")] = None,
         sandbox: Sandbox = None,
         json: Json = False) -> int:
    """Runs the tests of a SOP offline, in memory."""
    import asyncio

    from metaflow_agents.trial import Verdict, try_out
    from metaflow_agents.views.tried import verdict_lines

    async def every() -> list[Verdict]:
        found = []
        async for verdict in try_out(file, cases or (), sandbox=sandbox):
            found.append(verdict)
            if not json:
                say(verdict_lines(verdict.as_json(), page()))
        return found

    verdicts = asyncio.run(every())
    red = sum(not verdict.ok for verdict in verdicts)
    if json:
        say_json([verdict.as_json() for verdict in verdicts])
    else:
        say([f"{len(verdicts) - red} of {len(verdicts)} hold{', commands unconfined' if sandbox == 'none' else ''}"])
    return 1 if red else 0
