"""A journal at a glance: what a list of runs and the minutes need, straight from the rows, without folding any state."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from pydantic_core import from_json

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.store import Row, Store

_PAGE = 2000
SQLITE = sqlite3.sqlite_version
"""The version of SQLite that Python was built with."""
_SPENT = """
WITH
asked(key, try, tokens, cost, unpriced) AS MATERIALIZED (
  SELECT json_extract(data, '$.key'), coalesce(json_extract(data, '$.try'), 0), json_extract(data, '$.tokens'),
         coalesce(json_extract(data, '$.cost'), 0), coalesce(json_extract(data, '$.unpriced'), 0)
  FROM events WHERE kind = 'reserved'),
answered(key, try, calls, tokens, cached, cost, estimated) AS MATERIALIZED (
  SELECT json_extract(data, '$.key'), coalesce(json_extract(data, '$.try'), 0), coalesce(json_extract(data, '$.calls'), 1),
         coalesce(json_extract(data, '$.tokens_in'), 0) + coalesce(json_extract(data, '$.tokens_out'), 0),
         coalesce(json_extract(data, '$.tokens_cached'), 0), coalesce(json_extract(data, '$.cost'), 0),
         coalesce(json_extract(data, '$.estimated'), 0)
  FROM events WHERE kind = 'settled')
SELECT coalesce(sum(answered.calls), 0), coalesce(sum(answered.tokens), 0), coalesce(sum(answered.cached), 0),
       coalesce(sum(answered.cost), 0), coalesce(sum(answered.cost * answered.estimated), 0),
       coalesce(sum(asked.unpriced * coalesce(answered.calls, 1)), 0),
       coalesce(sum(answered.key IS NULL), 0), coalesce(sum((answered.key IS NULL) * asked.tokens), 0),
       coalesce(sum((answered.key IS NULL) * asked.cost), 0)
FROM asked LEFT JOIN answered USING (key, try)
"""                         # reserved and not settled is no spending, and stands beside it

_TRIES = """
SELECT coalesce(json_extract(data, '$.trouble'),
                CASE coalesce(json_extract(data, '$.calls'), 1) WHEN 0 THEN 'refused' ELSE 'failed' END),
       count(*), sum(coalesce(json_extract(data, '$.wait'), 0.0))
FROM events WHERE kind = 'settled' AND json_extract(data, '$.error') IS NOT NULL GROUP BY 1
"""                         # journals of before said only whether a try was taken up

_SECONDS = """
WITH times(kind, at, before, rested) AS (
  SELECT kind, json_extract(data, '$.at'), lag(json_extract(data, '$.at')) OVER (ORDER BY seq),
         CASE WHEN kind = 'answered' THEN coalesce(json_extract(data, '$.rested'), 0.0) ELSE 0.0 END FROM events)
SELECT coalesce(sum(max(at - before - rested, 0.0)), 0.0) FROM times WHERE kind NOT IN ('run_opened', 'resumed')
"""


@dataclass(frozen=True, slots=True)
class Glance:
    """One run in figures. `state` is an outcome, `running`, `killed`, or `damaged` (then `reason` says how).

    `began` is Unix time, `seconds` how long the run was under way, pauses left out. `cost` is in picodollars; `estimated`
    are those of them that are an upper bound, `unpriced` calls that cost money, nobody knows how much. Calls that were sent and
    not answered are none of these: they are `open_calls`, at most so many tokens and picodollars.
    """

    run: str
    sop: str = ""
    state: str = ""
    reason: str = ""
    began: float = 0.0
    seconds: float = 0.0
    activations: int = 0
    calls: int = 0
    tokens: int = 0
    tokens_cached: int = 0
    cost: int = 0
    estimated: int = 0
    unpriced: int = 0
    open_calls: int = 0
    open_tokens: int = 0
    open_cost: int = 0

    @property
    def usd(self) -> float:
        """What it cost, in US dollars."""
        return self.cost / 10**12

    def as_json(self) -> dict[str, Any]:
        """What `sop runs --json` prints of it: `cost` in US dollars, and whether it is only known to be no more than that."""
        told = {name: value for name, value in asdict(self).items() if not name.startswith("open_")}
        return {**told, "cost": self.usd, "estimated": self.estimated > 0, "unanswered": self.unanswered}

    @property
    def unanswered(self) -> dict[str, Any]:
        """What was sent and not answered, at its worst case; `cost` in US dollars."""
        return {"calls": self.open_calls, "tokens": self.open_tokens, "cost": self.open_cost / 10**12}


def unwrapped(event: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """What happened, and in which sub-SOP: the activations that lead to it, `write@1[b]~0`; empty for the run's own steps."""
    path: list[str] = []
    at = event.get("at", 0.0)
    while event["kind"] == "inner":
        path.append(event["activation"])
        event = event["event"]
    return "/".join(path), {**event, "at": at} if path else event


class RawJournal:
    """A journal's rows, for reading only; also while another process writes it. A context manager.

    Raises UsageError where there is no such run, JournalError where the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = Store(path, writable=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def last(self) -> int:
        """Number of the last event; 0 where there is none."""
        return self._store.last()

    def events(self, *kinds: str, after: int = 0, until: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events with their numbers, in order, as the JSON that was written: defaults are left out. Those behind `after` alone,
        up to `until`: by default up to what is there now.
        """
        until = self._store.last() if until is None else until
        while rows := self._store.page(kinds, after, until, _PAGE):
            for row in rows:
                yield row[0], self._read(row)
            after = rows[-1][0]

    def numbered(self, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The events of these numbers, in order."""
        for start in range(0, len(numbers), _PAGE):
            for row in self._store.rows(numbers[start:start + _PAGE]):
                yield row[0], self._read(row)

    def _read(self, row: Row) -> dict[str, Any]:
        seq, kind, data = row
        try:
            event: dict[str, Any] = from_json(data)         # twice as quick as `json`: large journals are read whole
        except ValueError as error:
            raise JournalError(f"{self.path} is damaged at event {seq}: {error}; restore the file from a copy") from error
        event["kind"] = kind                    # left out of the data, as every default is
        return event

    def blob(self, digest: str) -> bytes:
        """A blob's bytes. Raises JournalError where it is missing or damaged."""
        return self._store.blob(digest)

    def glance(self) -> Glance:
        """The run in figures."""
        with self._store.reading() as connection:
            counts = dict(connection.execute("SELECT kind, count(*) FROM events GROUP BY kind").fetchall())
            seconds = connection.execute(_SECONDS).fetchone()[0]
            spent = connection.execute(_SPENT).fetchone()
        opened: Mapping[str, Any] = next((event for _, event in self.events("run_opened")), {})
        state, reason = self.standing()
        return Glance(
            run=self.path.stem, sop=opened.get("entry", ""), state=state, reason=reason, began=opened.get("at", 0.0),
            seconds=round(seconds, 3), activations=counts.get("finished", 0),
            calls=spent[0], tokens=spent[1], tokens_cached=spent[2], cost=spent[3], estimated=spent[4], unpriced=spent[5],
            open_calls=spent[6], open_tokens=spent[7], open_cost=spent[8])

    def tries(self) -> tuple[dict[str, int], float]:
        """Tries at calls that failed, by what was wrong (`Settled.trouble`), and how many seconds were waited before the next."""
        with self._store.reading() as connection:
            rows = connection.execute(_TRIES).fetchall()
        return {trouble: count for trouble, count, _ in rows}, round(sum(wait for _, _, wait in rows), 3)

    def standing(self) -> tuple[str, str]:
        """How the run stands (an outcome, `running` or `killed`), and why."""
        if holder(self.path) is not None:
            return "running", ""
        rests = list(self.events("resumed", "run_ended"))
        last = rests[-1][1] if rests else {}
        return (last["outcome"], last.get("reason", "")) if last.get("kind") == "run_ended" else ("killed", "")


def glances(journals: Sequence[Path]) -> Iterator[Glance]:
    """A glance at each of these journals; one that can't be read is told as damaged, and hides none of the others."""
    for path in journals:
        try:
            with RawJournal(path) as journal:
                yield journal.glance()
        except JournalError as error:
            yield Glance(run=path.stem, state="damaged", reason=str(error))


def holder(journal: Path) -> int | None:
    """The process that has the run open, by its lock file; None where there is none, or it died without removing it."""
    try:
        written = journal.with_name(journal.name + ".lock").read_text(encoding="ascii", errors="replace").strip()
    except OSError:                             # no lock file: nobody has it open
        return None
    if not written.isdigit():
        return None
    try:
        os.kill(int(written), 0)
    except ProcessLookupError:
        return None
    except PermissionError:                     # it is there, and somebody else's
        return int(written)
    return int(written)
