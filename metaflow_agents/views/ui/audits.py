"""The audit of a run for a page: records in words, the latest first, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metaflow_agents.errors import JournalError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views.audit import audited, record_told
from metaflow_agents.views.ui.texts import line

_RECORDS = 300                      # of one answer
_NAMED = ("role", "tool", "action", "verdict", "rule", "untrusted", "by")


def audit_page(path: Path, heads: Path | None, offset: int = 0) -> dict[str, Any]:
    """The records of the journal at `path`, `offset` of them further back. `heads`: the directory of what this machine knows of
    how audits end; `head`: the digest over all records, `known`: whether this machine knows it. Raises UsageError, JournalError.
    """
    with Journal.read(path) as journal:
        records, found, headed = audited(journal, heads)

        def words(digest: str) -> Any:
            try:
                return read(journal.blob(digest))
            except JournalError:
                return {"text": "(what was said is altered)"}

        told = [_record(seq, event, words) for seq, event in records[::-1][offset:offset + _RECORDS]]
        return {"total": len(records), "faults": [line(fault) for fault in found.faults], "known": headed,
                "head": records[-1][1].chain if records else "", "records": told}


def _record(seq: int, event: Any, words: Any) -> dict[str, Any]:
    told = event.model_dump(mode="json", exclude_defaults=True) | {"kind": event.kind}
    return {"seq": seq, "at": event.at, "kind": event.kind, "key": event.key, "text": line(record_told(told, words), 1_000),
            **{name: line(told[name]) for name in _NAMED if told.get(name)}}
