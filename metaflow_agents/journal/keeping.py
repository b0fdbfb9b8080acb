"""Values kept across runs: what a successful run leaves in its journal for later runs of the same SOP in its workspace.

There is no second store. The event that ends a run with success is what keeps its values, so a kill leaves both or neither.
Which run counts is a matter of when runs began, not of when they ended: a run that waited for a person may end after a newer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.errors import JournalError, UsageError, did_you_mean
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path, run_names
from metaflow_agents.journal.run_summary import RawJournal
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.binary import loaded
from metaflow_agents.schema.sop import SOP
from metaflow_agents.texts.strict_json import read

NONE = "none"
"""`--keep-from none`: what earlier runs left is not read."""

_NOT_ASKED = ("dry", "replay:")     # models that make answers up, or repeat those of another run


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept value, as a Python program has it (bytes for a file that is no text), and the run and artifact that it came from.

    `untrusted`: the label that it had there; `began`: when that run began, in Unix time.
    """

    run: str
    artifact: str
    value: Any
    untrusted: str
    began: float

    @property
    def source(self) -> str:
        """Where it came from, for people."""
        return f"`{self.artifact}` of run `{self.run}`"


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of the SOP that keeps what it makes once it has succeeded. `standing`: see `RawJournal.standing`."""

    began: float
    ended: float
    name: str
    standing: str
    path: Path


def kept_values(workspace: Path | None, sop: SOP, given: Collection[str] = (), *, keep_from: str | None = None,
                from_run: str | None = None) -> dict[str, Kept]:
    """Input → the value that an earlier run has for it, for those that are not `given`, where there is one.

    For an input with `keep`, of the runs of a SOP with that name that succeeded, the one that began last and made the artifact
    counts. A run that was given values for steps, only staged its acting tools, or was answered by `dry` or a recording keeps
    nothing. `keep_from` names the run that counts, or is `none`. `from_run`: a run whose inputs are read as it read them, those
    without `keep` too; for inputs that it does not have, what it would have read.
    Raises UsageError for a journal that can't be read (it may be the one that counts) and for a run that keeps nothing.
    """
    wanted = _wanted(sop, given)
    if keep_from is not None and not wanted:
        raise UsageError(f"`--keep-from {keep_from}` would do nothing: no input with `keep` is left to read, since the SOP "
                         "has none or each is given; leave it out")
    if workspace is None:
        if keep_from not in (None, NONE):
            raise UsageError(f"`--keep-from {keep_from}`: a run in memory reads no other run; give it a workspace")
        return {}
    found: dict[str, Kept] = {}
    before = float("inf")
    if from_run is not None:
        found, before = read_by(workspace, from_run, wanted)
        read_now = {*sop.inputs} - {*given, *(wanted if keep_from is not None else ())}
        found = {name: one for name, one in found.items() if name in read_now}
    if not wanted or keep_from == NONE:
        return found
    runs = sorted(_runs(workspace, sop.sop, wanted), key=lambda one: (one.began, one.ended), reverse=True)
    if keep_from is not None:
        runs, before = [_named(runs, keep_from, workspace, sop.sop)], float("inf")
    for one in runs:
        open_ = {name: artifact for name, artifact in wanted.items() if name not in found}
        if not open_:
            break
        if one.standing == "success" and one.began < before:
            found |= _made(one, open_)
    for missing in [f"`{wanted[name]}` for the input `{name}`" for name in wanted if keep_from and name not in found]:
        raise UsageError(f"`--keep-from {keep_from}`: that run made no {missing}; name another run, or give the input")
    return found


def overlooked(workspace: Path, sop: SOP, given: Collection[str], kept: Mapping[str, Kept]) -> dict[str, dict[str, str]]:
    """Input → the runs that began after the one that it is kept from, and how they stand, for each that was looked for.

    Their values are not in it: they are unfinished, or have succeeded since it was read. A run without success may still keep its
    values, but by its own account it has failed; it is not told.
    """
    wanted = _wanted(sop, given)
    told: dict[str, dict[str, str]] = {name: {} for name in wanted}
    for one in sorted(_runs(workspace, sop.sop, wanted), key=lambda one: one.began) if wanted else ():
        for name, artifact in wanted.items():
            since = kept[name].began if name in kept else 0.0
            made = one.standing != "success" or bool(_made(one, {name: artifact}))
            if one.began > since and one.standing != "failure" and made:
                told[name][one.name] = one.standing
    return told


def read_by(workspace: Path, run: str, wanted: Collection[str] = ()) -> tuple[dict[str, Kept], float]:
    """Input → the value that a run was given for it, and when that began. Of what it had by default, and may have read where
    nothing was kept, that of the `wanted` inputs alone. Raises UsageError where it is no run.
    """
    found = {}
    with Journal.read(journal_path(workspace, run)) as journal:
        state = journal.state
        if state.opened is None:
            return {}, float("inf")                         # whoever reads its activations says so
        values = Values(journal.blob, state)
        for name, spec in read(journal.blob(state.opened.compiled))["sop"].get("inputs", {}).items():
            payload = state.payload(name, 1)
            if payload is None:
                continue
            value = loaded(values.plain(payload))
            if name in wanted or value != spec.get("default"):
                found[name] = Kept(run, f"{name}@1", value, state.untrusted(name, 1), state.opened.at)
        return found, state.opened.at


def _wanted(sop: SOP, given: Collection[str]) -> dict[str, str]:
    """Input → the artifact that is kept for it, of those with `keep` that are not given."""
    return {name: spec.keep for name, spec in sop.inputs.items() if spec.keep is not None and name not in given}


def _named(runs: Sequence[_Run], name: str, workspace: Path, sop: str) -> _Run:
    """The run of that name among those, newest first. Raises UsageError where it keeps nothing."""
    choices = {one.name: one for one in runs if one.standing == "success"}
    if name not in choices:
        why = f"is no run of `{sop}` that succeeded and keeps what it made" if name in run_names(workspace) else "is no run here"
        raise UsageError(f"`--keep-from {name}`: {name!r} {why}; {did_you_mean(name, [*choices, NONE])}")
    return choices[name]


def _made(run: _Run, wanted: Mapping[str, str]) -> dict[str, Kept]:
    """Input → what a run that succeeded left of its artifact; where it made none, nothing."""
    found = {}
    with Journal.read(run.path) as journal:
        values = Values(journal.blob, journal.state)
        for name, artifact in wanted.items():
            payload = journal.state.payload(artifact)
            if payload is not None:
                label = journal.state.untrusted(artifact)
                told = f"{artifact}@{journal.state.version(artifact)}"
                found[name] = Kept(run.name, told, loaded(values.plain(payload)), label, run.began)
    return found


def _runs(workspace: Path, sop: str, wanted: Mapping[str, str]) -> Iterator[_Run]:
    """The runs of a SOP with that name that keep what they make, in no order. Raises UsageError."""
    for name in run_names(workspace):
        try:
            run = _looked_at(journal_path(workspace, name), sop)
        except JournalError as error:
            options = ", ".join(f"`--{name.replace('_', '-')}`" for name in wanted)
            raise UsageError(f"kept values can't be looked for: {error}; or move that file away, or give {options}") from error
        if run is not None:
            yield run


def _looked_at(path: Path, sop: str) -> _Run | None:
    """A run of that SOP; None where it is none, has not begun, or keeps nothing."""
    with RawJournal(path) as journal:
        events = [event for _, event in journal.events("run_opened", "resumed", "run_ended")]
        try:
            if not events or any(map(_keeps_nothing, events)):
                return None
            compiled = [event["compiled"] for event in events if "compiled" in event][-1]
            if read(journal.blob(compiled))["sop"]["sop"] != sop:
                return None
            standing = events[-1].get("outcome") or journal.standing()[0]     # a run that has ended may still be open
            return _Run(float(events[0]["at"]), float(events[-1]["at"]), path.stem, standing, path)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise JournalError(f"{path} is damaged: its beginning and end are no events of a run ({error}); "
                               "restore the file from a copy") from error


def _keeps_nothing(event: Mapping[str, Any]) -> bool:
    made_up = any(told.startswith(_NOT_ASKED) for told in event.get("models", {}).values())
    return bool(event.get("staged") or event.get("given")) or made_up
