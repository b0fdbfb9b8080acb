"""`sop run`, `sop resume`, `sop fork`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metaflow_agents.cli import options
from metaflow_agents.cli.options import (
    WORKSPACE,
    Budget,
    Json,
    Model,
    Otel,
    OtelContent,
    RunName,
    Sandbox,
    Until,
    Workspace,
    Yes,
)
from metaflow_agents.cli.output import page, say, say_json
from metaflow_agents.errors import SOPInvalid, UsageError

if TYPE_CHECKING:
    from metaflow_agents.schema.program import Program

OPEN = {"ignore_unknown_options": True, "allow_interspersed_args": True}
"""A SOP's inputs are options too, and only its file says which."""

Pairs = Annotated[list[str] | None, typer.Option(
    "--input", metavar="NAME=VALUE", help="An input that is called like one of these options. May be repeated.")]
Progress = Annotated[str, typer.Option(
    "--progress", metavar="NAME", help="How it is shown: `auto`, `plain` lines, or as an installed package does.")]
RunLabel = Annotated[str | None, typer.Option("--name", metavar="NAME", help="What the run is called.")]


def run(context: typer.Context,
        words: Annotated[list[str] | None, typer.Argument(
            metavar="FILE [--INPUT VALUE]", help="A SOP and its inputs.")] = None,
        model: Model = None,
        name: RunLabel = None,
        workspace: Workspace = WORKSPACE,
        until: Until = None,
        from_run: Annotated[str | None, typer.Option(
            "--from", metavar="RUN", help="Reuse the inputs and the unchanged results of that run.")] = None,
        keep_from: Annotated[str | None, typer.Option(
            "--keep-from", metavar="RUN", help="Read inputs with `keep` from that run; `none`: from no run.")] = None,
        sandbox: Sandbox = None,
        budget: Budget = None,
        yes: Yes = False,
        staged: Annotated[bool, typer.Option(
            "--dry-tools", help="Tools that act (network, MCP, services, functions) only say what they would do.")] = False,
        everything: Annotated[bool, typer.Option(
            "--everything", help="Read whole folders, with keys, journals and what .gitignore names.")] = False,
        allow: Annotated[list[str] | None, typer.Option(
            "--allow", metavar="PACKAGE", help="Let the run install a Python package. May be repeated.")] = None,
        progress: Progress = "auto",
        demo: Annotated[bool, typer.Option("--demo", help="Answer from the recording that comes with the SOP.")] = False,
        otel: Otel = None,
        otel_content: OtelContent = False,
        pairs: Pairs = None,
        json: Json = False,
        show_help: Annotated[bool, typer.Option("--help", help="Show this message; with a FILE its inputs too.")] = False) -> int:
    """Run a SOP. Each of its inputs is an option: text, @FILE, JSON for lists and mappings, paths for files and folders."""
    from metaflow_agents.cli import given

    found = given.split(words or ())
    own = [option for param in context.command.params for option in param.opts if option.startswith("--")]
    if found.file is None and (show_help or not found.options):
        say([context.get_help()])
        return 0 if show_help else 2
    if found.file is None:
        raise UsageError("no SOP is named: write `sop run FILE`; its inputs follow as options")
    program = _program(found.file)
    if show_help:
        say([context.get_help(), "", *given.help_lines(program, own, page())])
        return 0
    everybody, named = options.models(model)
    with _after_the_sop(found.file):
        inputs = {**given.read_options(program, found.options, own), **given.read_pairs(program, pairs or ())}
        say(given.named_files(program, found.options), sys.stderr)
        recorded = None
        if demo:
            recorded, shown = _demonstrated(program, everybody, named)
            everybody, inputs = f"replay:{recorded}", {**shown, **inputs}
        there = {**inputs, **_given_before(from_run, workspace)}
        if sys.stdin.isatty() and sys.stderr.isatty():
            inputs |= given.ask(program, there)
        given.refuse_missing(program, {**there, **inputs}, own)

    from metaflow_agents.api.run import start
    from metaflow_agents.cli.drive import drive

    target = options.collector(otel, content=otel_content)
    return drive(start(found.file, model=everybody, models=named, inputs=inputs, name=name, workspace=workspace, until=until,
                       from_run=from_run, keep_from=keep_from, staged=staged, everything=everything, allow=allow or (),
                       sandbox=sandbox, budget=options.budget(budget), yes=yes, recorded=recorded), workspace, json=json,
                 progress=progress, otel=target)


def resume(name: RunName,
           model: Model = None,
           sandbox: Sandbox = None,
           budget: Budget = None,
           accept_changes: Annotated[bool, typer.Option(
               "--accept-changes", help="Resume with the SOP as it is now if it changed since the run began.")] = False,
           reask: Annotated[bool, typer.Option(
               "--retry-changed-prompts", help="Call the model (and pay) again where a prompt changed.")] = False,
           until: Until = None,
           yes: Yes = False,
           progress: Progress = "auto",
           otel: Otel = None,
           otel_content: OtelContent = False,
           workspace: Workspace = WORKSPACE,
           json: Json = False) -> int:
    """Resume a run after a crash, a budget limit, a failure, a question or Ctrl-C."""
    everybody, named = options.models(model)

    from metaflow_agents.api.run import go_on
    from metaflow_agents.cli.drive import drive, rested
    from metaflow_agents.errors import RunSucceeded

    target = options.collector(otel, content=otel_content)
    try:
        going = go_on(name, workspace=workspace, model=everybody, models=named, sandbox=sandbox, budget=options.budget(budget),
                      until=until, accept_changes=accept_changes, reask=reask, yes=yes)
    except RunSucceeded:
        return rested(name, workspace, json=json)
    return drive(going, workspace, json=json, progress=progress, otel=target)


def fork(name: RunName,
         at: Annotated[str | None, typer.Option("--at", metavar="FIRING", help="Before this firing, such as fix_code@2.")] = None,
         new_name: RunLabel = None,
         workspace: Workspace = WORKSPACE,
         json: Json = False) -> int:
    """Create a new run from an existing one, as it was before a firing. Resume it to continue."""
    from metaflow_agents.api.run import fork as branch

    label = branch(name, at=at, new_name=new_name, workspace=workspace)
    where = "" if workspace == WORKSPACE else f" --workspace {workspace}"
    if json:
        say_json({"run": label, "forked_from": name, "at": at})
    else:
        say([f"{label} branches off from {name}{f' before {at}' if at else ''}; continue it: sop resume {label}{where}"])
    return 0


def preview(context: typer.Context,
           file: Annotated[str, typer.Argument(metavar="FILE", help="A SOP.")],
           step: Annotated[str, typer.Argument(
               metavar="STEP", help="The step to preview: `STEP`, `STEP[ITEM]`, `STEP@2`, `STEP/INNER` in a sub-SOP.")],
           words: Annotated[list[str] | None, typer.Argument(metavar="[--INPUT VALUE]", help="The SOP's inputs.")] = None,
           values: Annotated[list[str] | None, typer.Option(
               "--stub", metavar="ARTIFACT=JSON", help="Use this value for an artifact (`STEP/ARTIFACT=JSON` in a sub-SOP); "
                                                       "by default the smallest that fits. May be repeated.")] = None,
           pairs: Pairs = None,
           json: Json = False) -> int:
    """Show the prompt that a step would send and what its parts cost in tokens, without a model; for each item of `foreach`."""
    import asyncio
    from dataclasses import asdict

    from metaflow_agents.api.preview import costs_of, rehearse, step_at
    from metaflow_agents.cli import given
    from metaflow_agents.models.manual import conversation
    from metaflow_agents.policy.judged import BUILT_IN
    from metaflow_agents.schema.address import parse_address

    program = _program(file)
    found = given.split([file, *(words or ())])
    own = [option for param in context.command.params for option in param.opts if option.startswith("--")]
    with _after_the_sop(file):
        inputs = {**given.read_options(program, found.options, own), **given.read_pairs(program, pairs or ())}
        say(given.named_files(program, found.options), sys.stderr)
        given.refuse_missing(program, inputs, own)
    sent = asyncio.run(rehearse(file, step, inputs=inputs, given=given.read_values(program, values or ())))
    if json:
        say_json([{"key": one.request.key, "role": one.request.role, "messages": list(one.request.messages),
                   "schema": one.request.schema, "tools": list(one.request.tools), "parts": [asdict(part) for part in one.parts]}
                  for one in sent])
    else:
        say([line for one in sent
             for line in (f"===== {one.request.key} =====", "", *conversation(one.request).splitlines(), "", *costs_of(one), "")])
        inner, name = step_at(program, parse_address(step))
        hidden = [tool for tool in inner.sop.tools_of(inner.sop.steps[name]) if tool not in BUILT_IN]
        if hidden:
            say([f"not shown: {', '.join(hidden)}; what these are is known in a run: here nothing is imported, started or asked"])
    return 0


def _given_before(run: str | None, workspace: Path) -> Mapping[str, Any]:
    if run is None:
        return {}
    from metaflow_agents.journal.keeping import read_by

    return read_by(workspace, run)[0]


def _demonstrated(program: Program, everybody: str | None, named: Mapping[str, str]) -> tuple[Path, dict[str, Any]]:
    """The recording and the inputs of `--demo`; who answered is said first, on stderr."""
    from metaflow_agents.api.demo import demonstration
    from metaflow_agents.runtime.input_options import parse_option

    if everybody is not None or named:
        raise UsageError("`--demo` answers from a recording and `--model` names a model: leave one of them out")
    found = demonstration(program)
    say([found.told], sys.stderr)
    folders = {name for name, spec in program.sop.inputs.items() if spec.type == "folder" and found.inputs.get(name)}
    return found.recording, {name: parse_option(program, name, value) if name in folders else value
                             for name, value in found.inputs.items()}


@contextmanager
def _after_the_sop(file: str) -> Iterator[None]:
    """What is wrong with inputs is told where the SOP is right: a type that is none is not the fault of a value."""
    try:
        yield
    except UsageError:
        from metaflow_agents.runtime.checking import checked

        checked(file)
        raise


def _program(file: str) -> Program:
    """The SOP, for its inputs; whether it makes sense is looked at when the run begins."""
    from metaflow_agents.sop.load import read_sop

    reading = read_sop(file)
    if reading.loaded is None:
        raise SOPInvalid(reading.problems)
    return reading.loaded.program
