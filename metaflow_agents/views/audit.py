"""The audit of a run, record by record: what was decided, by which rule; what a person was asked, and what they said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from metaflow_agents.journal.audit import RECORDS, Audit, Heads, verified
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import RunOpened
from metaflow_agents.views.page import Page, safe
from metaflow_agents.views.wording import clock

_SIGNS = {"allow": "+", "ask": "?", "deny": "-"}


def audit_lines(records: Iterator[tuple[int, Mapping[str, Any]]], blob: Callable[[str], Any], page: Page) -> Iterator[str]:
    """(event number, record) → lines. `blob` gives a question or an answer by its digest."""
    for seq, record in records:
        when = clock(record.get("at", 0.0))
        yield from page.wrapped(safe(record_told(record, blob)), f"{seq:>6} {when}  ")


def audited(journal: Journal, heads: Path | None) -> tuple[list[tuple[int, Any]], Audit, bool]:
    """The records of a run with their event numbers, what is wrong with them, and whether this machine, in the directory `heads`,
    knows how they end.
    """
    opened = next((event for _, event in journal.events(RunOpened)), None)
    head = None if opened is None else Heads(heads).read(opened, journal.path)
    records = [(seq, event) for seq, event in journal.events() if isinstance(event, RECORDS)]   # a kind that is none, too
    return records, verified(records, head, journal.blob), head is not None


def record_told(record: Mapping[str, Any], blob: Callable[[str], Any]) -> str:
    """A record in words. `blob` gives a question or an answer by its digest."""
    key = record["key"]
    match record["kind"]:
        case "decided":
            seen = f"; it had read: {record['untrusted']}" if record.get("untrusted") else ""
            return (f"{_SIGNS[record['verdict']]} {record['verdict']:<5} {record['action']}  by {record['role']} ({key}): "
                    f"{record['rule']}{seen}")
        case "asked":
            question = blob(record["question"])
            what = question.get("action") or question["text"]
            given = f" {_json(question['arguments'])}" if question.get("arguments") else ""
            return f"? asks  {what}{given} ({key})"
        case _:
            answer = blob(record["answer"])
            said = " ".join(part for part in (answer.get("verdict", ""), answer.get("text", "")) if part) or "(nothing)"
            extent = f", for this {answer['scope']}" if answer.get("scope", "once") != "once" else ""
            changed = f", with {_json(answer['arguments'])} instead" if answer.get("arguments") is not None else ""
            assumed = ", assumed" if answer.get("assumed") else ""
            return f"= says  {said}{extent}{changed}{assumed}  by {record.get('by') or 'somebody'} ({key})"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
