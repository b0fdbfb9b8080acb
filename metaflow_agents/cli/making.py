"""`sop new`, `sop test` and `sop export`."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from metaflow_agents.cli.options import WORKSPACE, Json, Otel, OtelContent, Sandbox, SOPFile, Workspace
from metaflow_agents.cli.output import complain, page, say, say_json
from metaflow_agents.plugins import installed


def new(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the SOP.")],
        folder: Annotated[Path | None, typer.Option("--folder", metavar="DIR", help="Target directory; by default NAME/.")
                          ] = None,
        template: Annotated[str, typer.Option(
            "--template", metavar="NAME", help="Template: pipeline, review-loop, fan-out, tools or human-approval.")
        ] = "pipeline") -> int:
    """Create a SOP to start from, with roles, prompts and tests."""
    from metaflow_agents.api.scaffold import new_sop

    files = new_sop(name, Path(name) if folder is None else folder, template)
    say([*(f"wrote {file}" for file in files), "", "look at it, then:", f"  sop check {files[0]}", f"  sop test {files[0]}",
         f'  sop run {files[0]} --model dry --topic "tea"'])
    return 0


Kind = Enum("Kind", {name: name for name in installed("exports")})  # type: ignore[misc]


def export(names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Names of runs; `sop runs` lists them.")],
           recording: Annotated[Path | None, typer.Option(
               "--recording", metavar="FILE",
               help="Write model calls and answers, for `--model replay:FILE`. Ends in .jsonl.")] = None,
           answered_by: Annotated[str | None, typer.Option(
               "--answered-by", metavar="TEXT", help="Who answered, as a note in the recording.")] = None,
           also: Annotated[list[str] | None, typer.Option(
               "--also", metavar="RUN", help="Add the calls of another run of the same SOP and inputs. "
               "May be repeated.")] = None,
           results: Annotated[bool, typer.Option(
               "--results", help="Record the results of commands, tools and functions too, for `--demo`.")] = False,
           kind: Annotated[Kind | None, typer.Option(
               "--for", help="Write a data set for training, in the chat format of fine-tuning.")] = None,
           output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="File for the data set.")] = None,
           untrusted: Annotated[bool, typer.Option(
               "--untrusted", help="Include untrusted content in a data set.")] = False,
           otel: Otel = None,
           otel_content: OtelContent = False,
           workspace: Workspace = WORKSPACE) -> int:
    """Export runs: a recording to replay, a data set for training, or spans and metrics to an OpenTelemetry collector."""
    from metaflow_agents.errors import UsageError
    from metaflow_agents.models.recording import ENDING

    if otel is not None:
        if recording is not None or kind is not None:
            raise UsageError("`--otel` sends runs to a collector, and the other options write a file: give one of them")
        return _telemetry(names, otel, otel_content, workspace)
    if otel_content:
        raise UsageError("`--otel-content` says what is exported to a collector: add `--otel`, or `--otel URL`")
    _can_hold("--output", output)
    _can_hold("--recording", recording)
    if results and recording is None:
        raise UsageError("`--results` belongs to a recording: say where it goes, `--recording FILE.jsonl`")
    if kind is not None:
        return _data_set(names, str(kind.value), output, recording, untrusted, workspace)
    if output is not None or untrusted:
        raise UsageError("`--output` and `--untrusted` belong to data sets: say which one, `--for finetune`")
    name, *more = names
    if more:
        raise UsageError(f"one recording is of one run: give `{name}` alone, and `--also {more[0]}` for a run of the same SOP "
                         "and inputs")
    if recording is None:
        raise UsageError(f"what of {name} shall be written? `--recording FILE{ENDING}` writes its calls and their answers, "
                         "`--for finetune --output FILE` a data set; `--otel URL` sends its spans to a collector")
    if recording.suffix != ENDING:
        raise UsageError(f"`--recording {recording}`: a recording's name ends in `{ENDING}`, by which `replay:` knows it")
    if answered_by is None:
        raise UsageError("who answered? `--answered-by \"…\"` stands in the recording, for whoever replays it")
    return _recording(name, recording, answered_by, also or [], workspace, results=results)


def _can_hold(option: str, file: Path | None) -> None:
    """Raises UsageError where no file of this name can be written: it is a folder, or lies in none."""
    from metaflow_agents.errors import UsageError

    if file is None:
        return
    if file.is_dir() or not file.name:
        raise UsageError(f"`{option} {file}` is a folder: name a file in it, as in `{option} {file / 'NAME.jsonl'}`")
    if not file.parent.is_dir():
        raise UsageError(f"`{option} {file}`: `{file.parent}` is a file; name a file in a folder" if file.parent.exists() else
                         f"`{option} {file}`: the folder `{file.parent}` does not exist; make it (`mkdir -p {file.parent}`), or "
                         "name another")


def _recording(name: str, file: Path, answered_by: str, also: list[str], workspace: Path, *, results: bool) -> int:
    from contextlib import ExitStack

    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.models.recording import save
    from metaflow_agents.views.wording import amount

    with ExitStack() as opened:
        first, *others = [opened.enter_context(RawJournal(journal_path(workspace, run))) for run in (name, *also)]
        calls = save(first, file, answered_by, *others, results=results)
    say([f"wrote {file}: {amount(calls, 'call')}; answered from it again: --model replay:{file}"])
    return 0


def _data_set(names: list[str], kind: str, file: Path | None, recording: Path | None, untrusted: bool, workspace: Path) -> int:
    from contextlib import ExitStack

    from metaflow_agents.errors import UsageError
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.journal.whole import write_whole
    from metaflow_agents.schema.model import canonical
    from metaflow_agents.views.wording import amount

    if recording is not None:
        raise UsageError("`--recording` and `--for` write two different files: give one")
    if file is None:
        raise UsageError(f"where shall the data set go? `--for {kind} --output FILE.jsonl`")
    with ExitStack() as opened:
        journals = [opened.enter_context(RawJournal(journal_path(workspace, name))) for name in names]
        made = installed("exports")[kind].load()(journals, untrusted=untrusted)
    write_whole(file, b"".join(canonical(line) + b"\n" for line in made.lines), file.with_name(f".{file.name}.part"))
    say([f"wrote {file}: {amount(len(made.lines), 'conversation')}",
         *(f"  left out: {amount(count, 'activation')}, {why}" for why, count in made.left_out.most_common())])
    return 0


def _telemetry(names: list[str], endpoint: str, content: bool, workspace: Path) -> int:
    from metaflow_agents.api.telemetry import target_of
    from metaflow_agents.api.telemetry.exporter import export_whole
    from metaflow_agents.journal.lock import refuse_busy
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.settings import Settings
    from metaflow_agents.views.wording import amount

    settings = Settings.read()
    target = target_of(endpoint, settings, content=content)
    for name in names:
        path, told = journal_path(workspace, name), list[str]()
        refuse_busy(path)
        exported = export_whole(path, target, settings, told.append)
        if exported.state != "fine":
            return complain(f"{name} was not exported, or not to its end: {'; '.join(told)}", 1)
        say([f"sop: {text}" for text in told], sys.stderr)
        say([f"{name}: {amount(exported.count, 'span')} sent to {target.place}; trace {exported.trace.hex()}"])
    return 0


def test(file: SOPFile,
         cases: Annotated[list[str] | None, typer.Argument(metavar="CASE", help="Run only these tests.")] = None,
         sandbox: Sandbox = None,
         json: Json = False) -> int:
    """Run the tests of a SOP, offline and in memory."""
    import asyncio

    from metaflow_agents.api.sop_test import CaseVerdict, try_out
    from metaflow_agents.views.tried import verdict_lines

    async def every() -> list[CaseVerdict]:
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
        failed = f", {red} failed" if red else ""
        say([f"{len(verdicts) - red} passed{failed}{', commands unconfined' if sandbox == 'none' else ''}"])
    return 1 if red else 0
