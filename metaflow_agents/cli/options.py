"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metaflow_agents.cli.output import say
from metaflow_agents.errors import UsageError

if TYPE_CHECKING:
    from metaflow_agents.api.telemetry import Target

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
Otel = Annotated[str | None, typer.Option(
    "--otel", metavar="[URL]", help="Export spans and metrics to an OpenTelemetry collector, by default that of "
                                    "OTEL_EXPORTER_OTLP_ENDPOINT, or http://localhost:4318.")]
OtelContent = Annotated[bool, typer.Option(
    "--otel-content", help="Export what models and tools were asked and said, too; secrets are redacted.")]
Until = Annotated[str | None, typer.Option("--until", metavar="STEP", help="Stop after this step; `sop resume` continues.")]

_ADDRESS = re.compile(r"\w+://.*|[\w.-]+:\d+(/.*)?", re.DOTALL)
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


def with_values(words: Sequence[str]) -> list[str]:
    """A command line in which `--otel` has a value, be it an empty one: the word behind it is its own where it is an address."""
    following = [*words[1:], ""]
    return [f"{word}=" if word == "--otel" and not _ADDRESS.fullmatch(after) else word
            for word, after in zip(words, following, strict=True)]


def collector(endpoint: str | None, *, content: bool) -> Target | None:
    """Where to export to, as options and environment say it; None: nowhere, and nothing is imported for it.

    Raises UsageError for an option that makes no sense. A variable that makes none hinders no run: it is told.
    """
    from metaflow_agents.settings import Settings

    settings = Settings.read()
    if endpoint is None and not settings.otel:
        found = None
    else:
        from metaflow_agents.api.telemetry import target_of

        try:
            found = target_of(endpoint, settings, content=content)
        except UsageError as error:
            if endpoint is not None:
                raise
            found = None
            say([f"sop: nothing is exported to OpenTelemetry: {error}"], sys.stderr)
    if content and found is None:
        raise UsageError("`--otel-content` says what is exported, and nothing is: add `--otel`")
    return found
