"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from metaflow_agents.errors import UsageError

WORKSPACE = Path("workspace")

Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Workspace = Annotated[Path, typer.Option("--workspace", metavar="DIR", help="Directory of the runs.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run; `sop runs` lists them.")]
SOPFile = Annotated[str, typer.Argument(metavar="FILE", help="A SOP: a file, or the name of one in sops/ or the package.")]
Model = Annotated[list[str] | None, typer.Option(
    "--model", metavar="[NAME=]M", help="Model that answers: openai:NAME, a name under `models`, manual, manual:FOLDER, "
                                        "replay:RECORDING[,MODEL], python:FILE.py:function, dry; "
                                        "with NAME= for one name under `models`, or one role. May be repeated.")]
Budget = Annotated[list[str] | None, typer.Option(
    "--budget", metavar="CAP=N", help="Limits, such as usd=5,tokens=2M,calls=100,time=30m; STEP/tokens=2M limits a step. "
                                      "May be repeated.")]
Sandbox = Annotated[str | None, typer.Option(
    "--sandbox", metavar="NAME", help="Sandbox for commands: `bubblewrap`, `landlock` or `container` (default: the first that "
                                      "works here); `none` runs them unconfined.")]
Yes = Annotated[bool, typer.Option(
    "--yes", help="Allow and approve without asking. Denied actions stay denied; other questions are still asked.")]
Until = Annotated[str | None, typer.Option("--until", metavar="STEP", help="Stop after this step; `sop resume` continues.")]

_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.+)", re.DOTALL)


def models(written: Sequence[str] | None) -> tuple[str | None, dict[str, str]]:
    """`--model` options as (everybody's model, name → model). Raises UsageError where one is given twice."""
    everybody: str | None = None
    named: dict[str, str] = {}
    for text in written or ():
        match = _NAMED.fullmatch(text)
        if match is None and everybody is not None:
            raise UsageError(f"`--model {text}`: everybody's model is {everybody} already; `--model NAME=M` is for one")
        if match is not None and match[1] in named:
            raise UsageError(f"`--model {text}`: {match[1]} is given twice")
        if match is None:
            everybody = text
        else:
            named[match[1]] = match[2]
    if everybody is not None and named:
        raise UsageError(f"`--model {everybody}` answers for every role, so `--model {next(iter(named))}=…` would do nothing: "
                         "write `default=` before the first")
    return everybody, named


def budget(written: Sequence[str] | None) -> dict[str, str]:
    """`--budget` options as measure → what was written. Raises UsageError for what is no `NAME=VALUE`, or given twice."""
    found: dict[str, str] = {}
    for part in (part.strip() for text in written or () for part in text.split(",")):
        measure, sign, value = part.partition("=")
        if not sign or not value.strip():
            raise UsageError(f"`--budget {part}`: write like usd=5,tokens=2M,calls=100,time=30m")
        if measure.strip() in found:
            raise UsageError(f"`--budget {part}`: {measure.strip()} is given twice")
        found[measure.strip()] = value.strip()
    return found
