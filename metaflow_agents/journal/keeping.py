"""Values kept across runs: what a successful run leaves in its journal for later runs of the same SOP in its workspace.

There is no second store. The event that ends a run with success is what keeps its values, so a kill leaves both or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.foreign_json import read
from metaflow_agents.journal.glance import RawJournal
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.places import journal_path, run_names
from metaflow_agents.journal.values import Values
from metaflow_agents.schema.binary import loaded

_NOT_ASKED = ("dry", "replay:")     # models that make answers up, or repeat those of another run


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept value, as a Python program has it (bytes for a file that is no text), and the run and artifact that it came from.

    `untrusted`: the label that it had there.
    """

    run: str
    artifact: str
    value: Any
    untrusted: str

    @property
    def source(self) -> str:
        """Where it came from, for people."""
        return f"`{self.artifact}` of run `{self.run}`"


def kept_values(workspace: Path | None, sop: str, wanted: Mapping[str, str]) -> dict[str, Kept]:
    """Input → the value that was kept for it, for those for which there is one.

    `wanted`: input → artifact. Of the runs of a SOP with that name that succeeded, the last one that made the artifact counts.
    A run that was given values for steps, only staged its acting tools, or was answered by `dry` or a recording keeps nothing.
    Raises UsageError for a journal that can't be read: it may be the one that counts.
    """
    found: dict[str, Kept] = {}
    if workspace is None or not wanted:
        return found
    ended = []
    for run in run_names(workspace):
        path = journal_path(workspace, run)
        try:
            at = _succeeded(path, sop)
        except JournalError as error:
            options = ", ".join(f"`--{name.replace('_', '-')}`" for name in wanted)
            raise UsageError(f"kept values can't be looked for: {error}; or move that file away, or give {options}") from error
        if at is not None:
            ended.append((at, run, path))
    for _, run, path in sorted(ended, reverse=True):
        open_ = {name: artifact for name, artifact in wanted.items() if name not in found}
        if not open_:
            break
        with Journal.read(path) as journal:
            values = Values(journal.blob, journal.state)
            for name, artifact in open_.items():
                payload = journal.state.payload(artifact)
                if payload is not None:
                    label = journal.state.untrusted(artifact)
                    found[name] = Kept(run, f"{artifact}@{journal.state.version(artifact)}", loaded(values.plain(payload)), label)
    return found


def _succeeded(path: Path, sop: str) -> float | None:
    """When a run of that SOP succeeded, in Unix time; None where it did not, or keeps nothing."""
    with RawJournal(path) as journal:
        events = [event for _, event in journal.events("run_opened", "resumed", "run_ended")]
        try:
            if not events or events[-1].get("outcome") != "success" or any(map(_keeps_nothing, events)):
                return None
            compiled = [event["compiled"] for event in events if "compiled" in event][-1]
            return float(events[-1]["at"]) if read(journal.blob(compiled))["sop"]["sop"] == sop else None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise JournalError(f"{path} is damaged: its beginning and end are no events of a run ({error}); "
                               "restore the file from a copy") from error


def _keeps_nothing(event: Mapping[str, Any]) -> bool:
    made_up = any(told.startswith(_NOT_ASKED) for told in event.get("models", {}).values())
    return bool(event.get("staged") or event.get("given")) or made_up
