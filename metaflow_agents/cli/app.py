"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from metaflow_agents.cli import checking, doctor, making, people, permissions, reading, running, serving
from metaflow_agents.cli.output import say

app = typer.Typer(
    name="sop", no_args_is_help=True, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False,
    help="Language-model agents that work together by a written procedure.",
    epilog="Exit status: 0 success, 1 ended without, 2 wrong usage or an invalid SOP, 3 a budget's cap, "
           "4 waiting for a person, 5 no model, 130 interrupted.")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say([f"metaflow-agents {version('metaflow-agents')}"])
        raise typer.Exit


@app.callback()
def _whole(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Its version.")] = False,
           ) -> None:
    """Language-model agents that work together by a written procedure."""


app.command("check")(checking.check)
app.command("run", context_settings=running.OPEN, add_help_option=False)(running.run)
app.command("prompt", context_settings=running.OPEN)(running.prompt)
app.command("test")(making.test)
app.command("graph")(checking.graph)
app.command("new")(making.new)
app.command("resume")(running.resume)
app.command("fork")(running.fork)
app.command("inbox")(people.inbox)
app.command("answer")(people.answer)
app.command("runs")(reading.runs)
app.command("show")(reading.show)
app.command("log")(reading.log)
app.command("diff")(reading.diff)
app.command("history")(reading.history)
app.command("export")(making.export)
app.command("mcp")(serving.mcp)
app.add_typer(permissions.policy, name="policy")
app.command("schema")(checking.schema)
app.command("doctor")(doctor.doctor)
