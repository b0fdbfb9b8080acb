"""`sop new` and `sop test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metaflow_agents.cli.options import Json, Sandbox, SOPFile
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
