"""A page of a run's event log, from any place in it, forwards or backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.journal.run_summary import RawJournal, unwrapped
from metaflow_agents.schema.address import Address, lies_in, parse_address
from metaflow_agents.schema.program import Program
from metaflow_agents.texts.strict_json import read
from metaflow_agents.views import event_log
from metaflow_agents.views.gave import commands_of
from metaflow_agents.views.ui.texts import line

MOST = 300
"""Lines of one answer."""
_WINDOW = 2_000                     # events that are read at a time
_SCANNED = 20_000                   # events that are looked at for one answer
_TEXT = 600                         # characters of a line


@dataclass(frozen=True, slots=True)
class Section:
    """Which events: behind `after`, or before `before` (0: from the end where `after` is None); of a kind, of a step."""

    after: int | None = None
    before: int = 0
    limit: int = MOST
    kind: str = ""
    step: str = ""


def log_page(journal: RawJournal, program: Program, section: Section) -> dict[str, Any]:
    """The events as lines, in order; `last` is the number of the last event there is, `from` and `to` what was looked at.

    Raises UsageError for a kind or a step that there is none of.
    """
    if section.kind and section.kind not in event_log.KINDS:
        raise UsageError(f"no event is of kind `{section.kind}`: {did_you_mean(section.kind, event_log.KINDS)}")
    plain = program.plain()
    address = _address(section.step, event_log.steps_of(plain)) if section.step else ()
    last, most = journal.last(), min(section.limit, MOST)
    pages = _forwards(journal, section, last) if section.after is not None else _backwards(journal, section, last)
    found: list[tuple[int, dict[str, Any]]] = []
    start, end = last + 1, 0
    for window in pages:
        fitting = [(seq, event) for seq, event in window if _fits(event, section.kind, address)]
        if section.after is not None:
            found += fitting[:most - len(found)]
            end = found[-1][0] if len(found) == most else window[-1][0]
            start = min(start, window[0][0])
        else:
            found = fitting[len(fitting) - (most - len(found)):] + found if len(fitting) >= most - len(found) else fitting + found
            start = found[0][0] if len(found) == most else window[0][0]
            end = max(end, window[-1][0])
        if len(found) >= most:
            break
    told = _Words(journal, plain)
    return {"rows": [told.row(seq, event) for seq, event in found], "last": last, "from": min(start, last), "to": end}


def _forwards(journal: RawJournal, section: Section, last: int) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    at = section.after or 0
    until = min(last, at + _SCANNED)
    while at < until:
        window = list(journal.events(after=at, until=min(at + _WINDOW, until)))
        if window:
            yield window
        at += _WINDOW


def _backwards(journal: RawJournal, section: Section, last: int) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    at = min(section.before - 1, last) if section.before else last
    stop = max(at - _SCANNED, 0)
    size = min(_WINDOW, max(2 * section.limit, 1)) if not (section.kind or section.step) else _WINDOW
    while at > stop:
        window = list(journal.events(after=max(at - size, stop), until=at))
        if window:
            yield window
        at -= size


def _fits(event: dict[str, Any], kind: str, address: Sequence[Address]) -> bool:
    if kind and unwrapped(event)[1]["kind"] != kind:
        return False
    return not address or lies_in(event_log.place_of(event), address)


def _address(step: str, known: list[str]) -> tuple[Address, ...]:
    try:
        address = parse_address(step)
    except ValueError as error:
        raise UsageError(f"`step`: {error}") from None
    path = "/".join(part.step for part in address)
    if path not in known:
        raise UsageError(f"the run has no step `{path}`: {did_you_mean(path, known)}")
    return address


class _Words:
    """Events in words."""

    def __init__(self, journal: RawJournal, plain: dict[str, Any]) -> None:
        self._journal = journal
        self._read_by, self._commands = event_log.readers(plain), commands_of(plain)

    def row(self, seq: int, event: dict[str, Any]) -> dict[str, Any]:
        minute = event_log.minute(event, self._read_by, lambda digest: read(self._journal.blob(digest)), self._commands)
        where, own = unwrapped(event)
        key = own.get("activation") or own.get("firing") or own.get("key") or (
            f"{own['step']}@{own['round']}" if own["kind"] == "fired" else "")
        inside = f"{where}/" if where and "key" not in own else ""
        who = "" if key and key.partition("@")[0] in minute.who else f"{minute.who}: "
        return {"seq": seq, "at": minute.at, "kind": minute.kind, "place": f"{inside}{key}" if key else "",
                "text": line(who + minute.what, _TEXT)}
