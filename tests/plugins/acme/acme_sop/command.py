"""`sop weigh FILE`: how many steps a SOP has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metaflow_agents import check


def weigh(file: Annotated[Path, typer.Argument(help="A SOP.")], break_it: bool = False) -> int:
    """Counts the steps of a SOP."""
    if break_it:
        raise ValueError("the scales are broken")
    program = check(file).program
    typer.echo(f"{file.name} weighs {0 if program is None else len(program.sop.steps)}")
    return 0
