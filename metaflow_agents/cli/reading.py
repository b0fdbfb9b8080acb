"""`sop runs`, `sop show`, `sop log`, `sop diff`, `sop history`: what the journals tell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metaflow_agents.cli.options import WORKSPACE, Json, RunName, Workspace
from metaflow_agents.cli.output import page, say, say_bytes, say_json, say_value
from metaflow_agents.cli.told import hide_secrets, telling
from metaflow_agents.errors import JournalError, UsageError, did_you_mean
from metaflow_agents.terminal.printing import as_json

if TYPE_CHECKING:
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.schema.address import Address
    from metaflow_agents.views.summary import Told


def runs(workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """List the runs, the newest last."""
    from metaflow_agents.journal.places import journal_path, run_names
    from metaflow_agents.journal.run_summary import glances
    from metaflow_agents.views.listing import runs_lines

    found = list(glances([journal_path(workspace, name) for name in run_names(workspace)]))
    if json:
        say_json([run.as_json() for run in sorted(found, key=lambda run: run.began)])
    elif found:
        say(runs_lines(found, page()))
    else:
        say([f"no run in {workspace}/; `sop run FILE` makes one"])
    return 0


def show(name: RunName,
         artifact: Annotated[str | None, typer.Argument(
             metavar="ARTIFACT[@VERSION]", help="Print the value of this artifact; by default of its latest version.")] = None,
         costs: Annotated[bool, typer.Option(
             "--costs", help="Show costs by step, role, model and item, and by item key over all steps.")] = False,
         every: Annotated[bool, typer.Option(
             "--all", help="With --costs: show all items and keys, not only the 20 most expensive.")] = False,
         raw: Annotated[bool, typer.Option("--raw", help="Print the raw bytes of an artifact, for `> FILE`.")] = False,
         html: Annotated[Path | None, typer.Option(
             "--html", metavar="FILE", help="Write the run's page into one file that opens without a server.")] = None,
         workspace: Workspace = WORKSPACE,
         json: Json = False) -> int:
    """Show the result of a run, its artifacts and their locations; or the value of one artifact."""
    from metaflow_agents.output.history.standing import standing
    from metaflow_agents.views.summary import show_lines

    if costs and artifact is not None:
        raise UsageError(f"`--costs` are those of the whole run: leave out `{artifact}`")
    if every and (json or not costs):
        raise UsageError("`--all` lists all items and keys of `--costs`: " + (
            "leave it out, `--json` has them all" if costs else f"write `sop show {name} --costs --all`"))
    if html is not None:
        if artifact is not None or costs or raw or json:
            raise UsageError("`--html` writes the whole run into a file: leave out what chooses a part of it, or another form")
        return _page_file(name, html, workspace)
    if raw and (artifact is None or json):
        raise UsageError("`--raw` writes one artifact's bytes: " + (
            "leave out `--json`" if artifact is not None else f"name the artifact, `sop show {name} ARTIFACT --raw`"))
    with telling(workspace, name) as told:
        if costs:
            return _costs(told, json, every=every)
        if artifact is not None:
            return _value(told, artifact, json, raw)
        history = standing(told.journal, told.folder)
        if json:
            say_json({**told.as_json(), "history": history.as_json()})
        else:
            say(show_lines(told, history, page()))
    return 0


def _page_file(name: str, file: Path, workspace: Path) -> int:
    from metaflow_agents.cli.told import program_of
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.journal.run_summary import RawJournal
    from metaflow_agents.journal.whole import write_whole
    from metaflow_agents.settings import Settings
    from metaflow_agents.views.page_file.document import document
    from metaflow_agents.views.page_file.embedded import RunFile
    from metaflow_agents.views.wording import amount

    with RawJournal(journal_path(workspace, name)) as journal:
        compiled = [event["compiled"] for _, event in journal.events("run_opened", "resumed")]
        program = program_of(journal, compiled[-1] if compiled else "")
        where = "" if workspace == WORKSPACE else f" --workspace {workspace}"
        run = RunFile(journal, program, workspace, Settings.read().heads)
        data = run.data(f"sop ui {name}{where}")
    written = document(name, data, run.nowhere).encode()
    write_whole(file, written, file.with_name(f".{file.name}.part"))
    say([f"wrote {file}: {len(written) / 1e6:.1f} MB, {amount(len(data['conversations']), 'conversation')}; it opens in a "
         "browser, without a server", *([f"  {line}" for line in data["left_out"]])])
    return 0


def _costs(told: Told, json: bool, *, every: bool) -> int:
    from metaflow_agents.views.costs import costs_lines

    if json:
        say_json({"run": told.name, **told.costs().as_json(), "repeated": round(told.repeated(), 4)})
    else:
        say(costs_lines(told.name, told.costs(), page(), every=every, repeated=told.repeated()))
    return 0


def history(name: RunName, workspace: Workspace = WORKSPACE, json: Json = False) -> int:
    """Complete the git history of a run, after a kill or a lost `.git`. Files of the run stay as they are."""
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.output.history.writing import rebuild

    written = rebuild(journal_path(workspace, name), workspace / name)
    if json:
        say_json({"run": name, "head": written.tip, "commits": written.commits, "objects_written": written.objects})
    else:
        done = f"{written.objects:,} objects written" if written.objects else "it was complete"
        say([f"{name}: {written.commits:,} commits on main, the last {written.tip[:12]}; {done}"])
    return 0


def log(name: RunName,
        step: Annotated[str | None, typer.Option(
            "--step", metavar="STEP", help="Only events of this step and inside of it: `STEP`, `STEP@2`, `STEP[ITEM]`, "
                                           "`STEP/INNER` in a sub-SOP.")] = None,
        kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only this kind of events, like failed.")] = None,
        full: Annotated[bool, typer.Option("--full", help="Include full prompts, answers and values.")] = False,
        audit: Annotated[bool, typer.Option(
            "--audit", help="Show decisions, questions and answers, and verify that no record was altered.")] = False,
        workspace: Workspace = WORKSPACE,
        json: Json = False) -> int:
    """Show the event log of a run."""
    import json as js

    from metaflow_agents.journal.places import journal_path, never_began
    from metaflow_agents.journal.run_summary import RawJournal, unwrapped
    from metaflow_agents.schema.address import lies_in
    from metaflow_agents.views import event_log as minutes
    from metaflow_agents.views.gave import commands_of

    if audit:
        if step is not None or kind is not None or full:
            raise UsageError("`--audit` looks at all records of decisions: leave out `--step`, `--kind` and `--full`")
        return _audit(name, workspace, json=json)
    if kind is not None and kind not in minutes.KINDS:
        raise UsageError(f"no event is of kind `{kind}`: {did_you_mean(kind, minutes.KINDS)}")
    with RawJournal(journal_path(workspace, name)) as journal:
        program: dict[str, Any] = {}

        def blob(digest: str) -> Any:
            return js.loads(journal.blob(digest))

        for _, event in journal.events("run_opened", "resumed"):
            program = blob(event["compiled"])
        if not program:
            raise never_began(name)
        hide_secrets(program["sop"].get("secrets", ()))
        address = () if step is None else _address(name, step, program, journal)
        chosen = (event for _, event in journal.events(*([kind, "inner"] if kind else []))
                  if (kind is None or unwrapped(event)[1]["kind"] == kind) and lies_in(minutes.place_of(event), address))
        if json:
            _as_array(chosen)
            return 0
        seen, read_by, commands = page(), minutes.readers(program), commands_of(program)

        def lines() -> Iterator[str]:
            for event in chosen:
                yield minutes.minute(event, read_by, None if full else blob, commands).line(seen)
                if full:
                    yield from minutes.full(event, blob, seen)

        say(lines())
    return 0


def _address(name: str, step: str, program: dict[str, Any], journal: RawJournal) -> tuple[Address, ...]:
    """What `--step` names. Raises UsageError where the run has nothing of the kind, and tells what it has."""
    from metaflow_agents.schema.address import alike, lies_in, parse_address
    from metaflow_agents.views import event_log as minutes

    try:
        address = parse_address(step)
    except ValueError as error:
        raise UsageError(f"`--step`: {error}; attempts (`~1`) and calls (`/turn.0`) are left out") from None
    steps, path = minutes.steps_of(program), "/".join(part.step for part in address)
    if path not in steps:
        raise UsageError(f"run `{name}` has no step `{path}`: {did_you_mean(path, steps)}")
    if path == step:
        return address
    there: dict[str, None] = {}
    fired = False
    for _, event in journal.events():
        place = minutes.place_of(event)
        if lies_in(place, address):
            return address
        there[alike(place, address)] = None
        fired = fired or "/".join(part.step for part in place) == path
    there.pop("", None)
    if not fired:
        raise UsageError(f"`{path}` of run `{name}` has not started: there is no `{step}`")
    raise UsageError(f"run `{name}` has no `{step}`: "
                     + (did_you_mean(step, there) if there else f"`{path}` has no items; leave out `[…]`"))


def _audit(name: str, workspace: Path, *, json: bool) -> int:
    """Status 1 where a record was altered, removed, or cut off the end."""
    import json as js

    from metaflow_agents.journal.journal import Journal
    from metaflow_agents.journal.places import journal_path
    from metaflow_agents.settings import Settings
    from metaflow_agents.views.audit import audit_lines, audited

    def words(digest: str) -> Any:
        try:
            return js.loads(journal.blob(digest))
        except JournalError:
            return {"text": "(what was said is altered)"}

    with Journal.read(journal_path(workspace, name)) as journal:
        records, found, headed = audited(journal, Settings.read().heads)
        told = ((seq, event.model_dump(mode="json", exclude_defaults=True) | {"kind": event.kind}) for seq, event in records)
        if json:
            say_json({"run": name, "records": [{"event": seq, **record} for seq, record in told],
                      "faults": list(found.faults), "head": headed})
        else:
            say(audit_lines(told, words, page()))
            say([f"{found.records} records; " + ("; ".join(found.faults) if found.faults else "they are as they were written")
                 + ("" if headed or not found.records
                    else "; whether some are cut off the end can't be told: there is no head of this audit on this machine")])
    return 1 if found.faults else 0


def diff(one: Annotated[str, typer.Argument(metavar="RUN1", help="First run.")],
         two: Annotated[str, typer.Argument(metavar="RUN2", help="Second run.")],
         workspace: Workspace = WORKSPACE,
         json: Json = False) -> int:
    """Compare two runs: SOPs, artifacts, models, prompts, firings, costs."""
    from metaflow_agents.views.difference import as_json as differences
    from metaflow_agents.views.difference import diff_lines

    with telling(workspace, one) as first, telling(workspace, two) as second:
        if json:
            say_json(differences(first, second))
        else:
            say(diff_lines(first, second, page()))
    return 0


def _value(told: Told, written: str, json: bool, raw: bool) -> int:
    from metaflow_agents.journal.tree import Tree
    from metaflow_agents.schema.binary import jsonable
    from metaflow_agents.views.markdown import LONGEST, is_markdown, markdown_lines
    from metaflow_agents.views.raw import raw as raw_bytes
    from metaflow_agents.views.values import as_text

    artifact, sign, number = written.partition("@")
    known = told.outline.versions
    if artifact not in known:
        declared = (*told.program.sop.inputs, *told.program.sop.artifacts)
        if artifact in declared:
            raise UsageError(f"run `{told.name}` has made no `{artifact}` yet: {did_you_mean(artifact, known)}")
        raise UsageError(f"run `{told.name}` has no artifact `{artifact}`: {did_you_mean(artifact, declared)}")
    latest = len(known[artifact])
    if sign and not (number.isdecimal() and 1 <= int(number) <= latest):
        raise UsageError(f"`{artifact}` has no version {number or '(none given)'}: there is: {artifact}@1"
                         + (f" to {artifact}@{latest}" if latest > 1 else ""))
    payload = told.outline.payload(artifact, int(number) if sign else latest) or ""
    if json:
        say_json(jsonable(told.values.plain(payload)))
        return 0
    spec, tree = told.program.sop.artifacts.get(artifact), Tree(told.program, told.values, told.outline, told.name)
    if raw:
        say_bytes(raw_bytes(artifact, payload, told.values, tree, str(told.folder)))
        return 0
    text = as_text(artifact, payload, told.values, tree, rendered=spec is not None and spec.render is not None)
    if sys.stdout.isatty() and spec is not None and is_markdown(spec.file) and len(text) <= LONGEST:
        say(markdown_lines(text, page()))
    else:
        say_value(text)
    return 0


def _as_array(events: Iterator[dict[str, Any]]) -> None:
    """One JSON array, an event a line, written as it is read."""
    def lines() -> Iterator[str]:
        before = None
        for event in events:
            if before is not None:
                yield before + ","
            before = ("[" if before is None else " ") + as_json(event)
        yield "[]" if before is None else before + "]"

    say(lines())
