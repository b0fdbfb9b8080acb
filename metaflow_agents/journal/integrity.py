"""Whether a journal holds what runs write: looked at where reading one has failed in a way that nobody foresaw.

A journal may come from somebody else. Its rows are JSON and text, and nothing in it is ever executed or built as it asks; but
each reader takes for granted what a run writes. Slow: everything in it is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from metaflow_agents.errors import JournalError, UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Committed, Documented, Event, Finished, Fired, Inner, RunOpened
from metaflow_agents.schema.keys import parse_activation, parse_firing
from metaflow_agents.schema.payload import Collection, unpack
from metaflow_agents.schema.program import Program

_LAST = 253_402_300_799.0           # the end of the year 9999, as Unix time


def fault(path: Path) -> str | None:
    """What in a journal is none of a run's making, in words; None where all of it could be. Raises JournalError, UsageError."""
    with Journal.read(path) as journal:
        for seq, event in journal.events():
            try:
                _look(journal, event)
            except (ValueError, ValidationError, RecursionError) as error:
                return f"event {seq} ({event.kind}): {' '.join(str(error).split())[:300]}"
        try:
            _ = journal.state
        except (JournalError, UsageError):
            raise
        except Exception as error:          # whatever the fold stumbles over: its events fit none another
            return f"its events do not follow from one another ({type(error).__name__}: {error})"[:300]
    return None


def _look(journal: Journal, event: Event) -> None:
    if not 0 <= event.at <= _LAST:
        raise ValueError(f"its time is {event.at:g}")
    if isinstance(event, Inner):
        _look(journal, event.event)
        return
    if isinstance(event, RunOpened):
        Program.model_validate_json(journal.blob(event.compiled))
    if isinstance(event, Fired):
        parse_firing(f"{event.step}@{event.round}")
    if isinstance(event, Finished):
        parse_activation(event.activation)
    for digest in _payloads(event):
        payload: Any = unpack(journal.blob(digest))
        for _, inner in payload.items if isinstance(payload, Collection) else ():
            unpack(journal.blob(inner))


def _payloads(event: Event) -> Iterator[str]:
    if isinstance(event, Finished | Documented):
        yield event.payload
    if isinstance(event, Committed):
        yield from (version.payload for version in event.versions)
