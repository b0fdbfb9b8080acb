"""`sop check`, `sop graph`, `sop schema`: what can be said of a file without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli.options import Json, SOPFile
from metaflow_agents.cli.output import complain, page, say, say_json

if TYPE_CHECKING:
    from metaflow_agents.sop.check import CheckReport

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="SOPs: files, or names of SOPs in sops/ or in the package.")]


def check(files: Files, json: Json = False) -> int:
    """Validate a SOP statically: errors, warnings, call limits."""
    from metaflow_agents.errors import SOPNotFound
    from metaflow_agents.views.checked import report_lines

    status = 0
    reports = []
    for place, file in enumerate(files):
        try:
            report = _checked(file)
        except SOPNotFound as error:
            status = complain(str(error), error.exit_status)
            continue
        status = status if report.ok else 2
        if json:
            reports.append(report.as_json())
        else:
            say([*([""] if place else []), *report_lines(report, page())])
    if json and reports:
        say_json(reports[0] if len(files) == 1 else reports)
    return status


def _checked(file: str) -> CheckReport:
    from metaflow_agents.settings import Settings
    from metaflow_agents.sop.check import check as look
    from metaflow_agents.sop.configuration import read_configuration
    from metaflow_agents.tools.known import known_tools

    models = read_configuration(Settings.read().configuration).configuration.models
    return look(file, models=models, tools=known_tools, missing=_missing)


def _missing(index: str) -> str:
    from metaflow_agents.memory.indexes import missing  # few SOPs recall by embeddings

    return missing(index)


def graph(file: SOPFile,
          mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
          svg: Annotated[bool, typer.Option("--svg", help="Print a picture as SVG.")] = False,
          html: Annotated[Path | None, typer.Option(
              "--html", metavar="FILE", help="Write the picture and what `sop check` says into one file.")] = None,
          json: Json = False) -> int:
    """Draw the graph of a SOP: steps by stage, data flow, loops."""
    from metaflow_agents.errors import SOPInvalid, UsageError
    from metaflow_agents.sop.graph import SOPGraph
    from metaflow_agents.sop.load import read_sop
    from metaflow_agents.views import graph as drawn
    from metaflow_agents.views.picture import svg as picture

    if mermaid + svg + json + (html is not None) > 1:
        raise UsageError("`--mermaid`, `--svg`, `--html` and `--json` are forms of the drawing: give one")
    reading = read_sop(file)
    if reading.loaded is None:
        raise SOPInvalid(reading.problems)
    sop = reading.loaded.program.sop
    steps = SOPGraph(sop)
    if json:
        say_json(drawn.as_json(sop, steps))
    elif svg:
        say(picture(sop, steps))
    elif html is not None:
        from metaflow_agents.journal.whole import write_whole
        from metaflow_agents.views.page_file.graph_page import graph_page

        write_whole(html, graph_page(sop, steps, _checked(file)).encode(), html.with_name(f".{html.name}.part"))
        say([f"wrote {html}"])
    else:
        say(drawn.mermaid(sop, steps) if mermaid else drawn.drawing(sop, steps, page()))
    return 0


def schema(role: Annotated[bool, typer.Option("--role", help="The schema of role files instead of SOP files.")] = False) -> int:
    """Print the JSON Schema of SOP files or role files, for editors."""
    from metaflow_agents.sop.editor_schema import role_schema, sop_schema

    say_json(role_schema() if role else sop_schema())
    return 0
