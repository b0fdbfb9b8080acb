"""The audit: what was decided, asked and answered, each record chained to the one before it by its digest.

A record that is altered or removed breaks the chain; one cut off the end is missed by the head, a small file outside of the
journal's folder that holds how many records there were and the digest of the last. (A hash chain as of Haber and Stornetta,
"How to Time-Stamp a Digital Document", J. Cryptology 3, 1991.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import time

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.journal.state import RunState
from metaflow_agents.journal.whole import read_regular, write_whole
from metaflow_agents.schema.event import Answered, Asked, Decided, Event, RunOpened
from metaflow_agents.schema.model import canonical, digest
from metaflow_agents.texts.strict_json import read

Record = Decided | Asked | Answered
RECORDS = (Decided, Asked, Answered)


def chained(state: RunState, record: Record) -> Record:
    """The record with its place in the chain. It has to be handed to the journal before any other is chained."""
    stamped = record if record.at else record.model_copy(update={"at": time()})
    return stamped.model_copy(update={"chain": link(state.chain, stamped)})


def link(before: str, record: Record) -> str:
    """The digest over a record and the one before it."""
    held = record.model_dump(mode="json", by_alias=True, exclude={"chain"}, exclude_defaults=True)
    return digest(canonical([before, record.kind, held]))


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found: how many records there are, and what is wrong with them, in words; nothing where all is as it was."""

    records: int
    faults: tuple[str, ...]


def verified(records: Iterable[tuple[int, Record]], head: Head | None, blob: Callable[[str], bytes] | None = None) -> Audit:
    """Follows the chain of a journal's records (event number, record) to its end, and past the head.

    `blob` gives what the journal holds under a digest, and raises JournalError for what is not as it was written: so it is
    looked whether the questions and answers are.
    """
    faults: list[str] = []
    chain, count, at_head = "", 0, head is None or head.records == 0
    for seq, record in records:
        count += 1
        if record.chain != link(chain, record):
            faults.append(f"event {seq} ({record.kind}, {record.key}) is not what was written, or one before it is gone")
        if blob is not None and not isinstance(record, Decided):
            try:
                blob(record.question if isinstance(record, Asked) else record.answer)
            except JournalError:
                faults.append(f"what was said in event {seq} ({record.kind}, {record.key}) is not what was written")
        chain = record.chain
        if head is not None and count == head.records:
            at_head = chain == head.chain
            if not at_head:
                faults.append(f"record {count} is not the one that the head of the audit knows: the records were written anew")
    if head is not None and count < head.records:
        lost = head.records - count
        words = "record is" if lost == 1 else "records are"
        faults.append(f"{lost} {words} cut off the end: there were {head.records}, and there are {count}")
    return Audit(count, tuple(faults))


@dataclass(frozen=True, slots=True)
class Head:
    """How far a run's audit had come: number of records, and the digest of the last."""

    records: int
    chain: str


def keep_head(journal: Journal, heads: Heads) -> None:
    """From now on the head follows the audit, a record behind at most: it is written once a record is durable."""
    count = journal.state.records

    def follow(_: int, event: Event) -> None:
        nonlocal count
        if isinstance(event, RECORDS):
            count += 1
            opened = journal.state.opened
            if opened is not None:
                heads.write(opened, journal.path, Head(count, event.chain))

    journal.listeners.append(follow)


class Heads:
    """Heads of audits in a folder outside of every workspace; None: nowhere, for runs in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, opened: RunOpened, journal: Path) -> Head | None:
        """The head of a run's audit; None where there is none. Raises JournalError for one that can't be read."""
        place = self._place(opened, journal)
        if place is None:
            return None
        try:
            told = read(read_regular(place))
            return Head(told["records"], told["chain"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JournalError(f"can't read the head of the audit {place}: {error}") from error

    def write(self, opened: RunOpened, journal: Path, head: Head) -> None:
        """Whole or not at all. Raises JournalError."""
        place = self._place(opened, journal)
        if place is None:
            return
        part = place.with_suffix(".part")               # one process has the run open; what a killed one left is replaced
        try:
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(place, canonical({"journal": str(journal), "records": head.records, "chain": head.chain}), part)
        except OSError as error:
            raise JournalError(f"can't write the head of the audit {place}: {error.strerror}") from error

    def _place(self, opened: RunOpened, journal: Path) -> Path | None:
        if self._folder is None or not journal.suffix:
            return None
        return self._folder / f"{digest(canonical([journal.stem, opened.at, opened.compiled]))[:32]}.json"
