"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from metaflow_agents.cli import checking, doctor, keeping, making, memories, people, permissions, reading, running, serving
from metaflow_agents.cli.installed import PluginCommands
from metaflow_agents.cli.output import say
from metaflow_agents.cli.renamed import renamed
from metaflow_agents.cli.strangers import of_runs

app = typer.Typer(
    name="sop",
    cls=PluginCommands,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Language-model agents that work together by a written procedure.",
    context_settings={"token_normalize_func": renamed},
    epilog="Exit status: 0 success, 1 finished without success, 2 wrong usage or an invalid SOP, 3 a budget's limit, "
    "4 waiting for a person, 5 no model, 130 interrupted.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say([f"metaflow-agents {version('metaflow-agents')}"])
        raise typer.Exit


@app.callback()
def _whole(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                                  help="Show the version and exit.")] = False,
           ) -> None:
    """Language-model agents that work together by a written procedure."""


app.command("check")(checking.check)
app.command("run", context_settings=running.OPEN, add_help_option=False)(of_runs(running.run))
app.command("preview", context_settings=running.OPEN)(running.preview)
app.command("test")(making.test)
app.command("graph")(checking.graph)
app.command("new")(making.new)
app.command("resume")(of_runs(running.resume))
app.command("fork")(of_runs(running.fork))
app.command("inbox")(of_runs(people.inbox))
app.command("answer")(of_runs(people.answer))
app.command("runs")(of_runs(reading.runs))
app.command("show")(of_runs(reading.show))
app.command("log")(of_runs(reading.log))
app.command("diff")(of_runs(reading.diff))
app.command("history")(of_runs(reading.history))
app.command("export")(of_runs(making.export))
app.command("mcp")(serving.mcp)
app.add_typer(permissions.policy, name="policy")
memories.memory.command("add")(keeping.add)
memories.memory.command("export")(keeping.export)
memories.memory.command("clear")(keeping.clear)
app.add_typer(memories.memory, name="memory")
app.command("schema")(checking.schema)
app.command("doctor")(doctor.doctor)
