"""From a journal to a collector: folds events, sends the spans that end, and notes how far that came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from metaflow_agents.api.telemetry import wire
from metaflow_agents.api.telemetry.note import Note
from metaflow_agents.api.telemetry.sender import Sender, Sent
from metaflow_agents.api.telemetry.target import Target
from metaflow_agents.errors import JournalError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Event, Resumed, RunOpened
from metaflow_agents.schema.program import Program
from metaflow_agents.settings import Settings
from metaflow_agents.tools.secrets import Secrets
from metaflow_agents.views.spans import Content, Span, Spans
from metaflow_agents.views.spans.identity import trace_id

BATCH = 512
"""Spans of one request, at most."""
_MOST_TEXT = 2_000_000                          # characters of one request: collectors take some megabytes
_NO_METRICS = (404, 405, 415, 501)

Tell = Callable[[str], None]


class Exporter:
    """The export of one run to one collector. For one thread at a time. `tell` is given what a person should know, each thing
    once.
    """

    def __init__(self, journal: Journal, target: Target, settings: Settings, tell: Tell) -> None:
        self._journal, self._target, self._tell, self._settings = journal, target, tell, settings
        self._file = journal.path if journal.path.is_file() else None
        self._sender, self._note = Sender(target), Note(self._file, target.name)
        self._version = str(target.resource.get("service.version", ""))
        self._spans: Spans | None = None
        self._waiting: list[Span] = []
        self._told: set[str] = set()
        self._metrics = target.metrics
        self._measured = time.monotonic()
        self.position = 0                       # number of the last event that was taken in
        self.sent = 0                           # and of that up to which all spans were taken by the collector
        self.count = self._noted = 0            # spans that it took in this process, and how many of them when that was noted
        self.state: Literal["fine", "down", "refused"] = "fine"

    @property
    def trace(self) -> bytes:
        """The id of the run's trace."""
        return b"" if self._spans is None else self._spans.trace

    @property
    def waiting(self) -> int:
        """Spans that have still to be sent."""
        return len(self._waiting)

    def hear(self, number: int, event: Event) -> None:
        """The next event."""
        if self._spans is None:
            self._spans = self._begun()
        ended = self._spans.hear(number, event)
        if ended and number > self.sent:
            self._waiting += ended
        self.position = number

    def unheard(self, limit: int | None = None) -> Iterator[tuple[int, Event]]:
        """Events of the journal that were not taken in yet, `limit` at most."""
        return self._journal.events(after=self.position, limit=limit)

    def killed(self) -> None:
        """The journal's end was heard, and the run was killed there: what was under way is sent too. The event that ends it will
        be the next one.
        """
        if self._spans is not None:
            cut_off = self._spans.cut_off()
            if cut_off and self.position + 1 > self.sent:
                self._waiting += cut_off
                self.position += 1

    def again(self) -> None:
        """Everything is sent, whatever the note says: to be called before the first event."""
        self._spans, self.sent = self._begun(), 0

    def send(self, timeout: float, *, measured: bool = False) -> bool:
        """Sends what waits; `measured`: metrics too, whether or not it is time for them. Whether all was taken."""
        while self._waiting and self._target.traces is not None:
            batch = self._waiting[:self._fitting()]
            outcome = self._sender.send(self._target.traces, wire.traces(batch, self._named(), self._version), timeout)
            if not self._taken(outcome):
                return False
            self.count += len(batch)
            del self._waiting[:len(batch)]
        self._waiting.clear()
        if self._metrics is not None and (measured or time.monotonic() - self._measured >= self._target.interval):
            self._measure(timeout)
        self.sent = max(self.sent, self.position)
        if self.count > self._noted:
            self._noted = self.count
            self._write()
        return self.state == "fine"

    def _fitting(self) -> int:
        """How many of the spans that wait go into one request: with content they may be large. One always does."""
        if not self._target.content:
            return BATCH
        length = 0
        for number, span in enumerate(self._waiting[:BATCH]):
            length += sum(len(value) for value in span.attributes.values() if isinstance(value, str))
            if length > _MOST_TEXT:
                return max(number, 1)
        return BATCH

    def _measure(self, timeout: float) -> None:
        self._measured = time.monotonic()
        if self._spans is None or self._metrics is None or not (points := list(self._spans.meters.points())):
            return
        body = wire.metrics(points, self._spans.meters.began, self._spans.last, self._named(), self._version)
        outcome = self._sender.send(self._metrics, body, timeout)
        if outcome.outcome == "refused" and outcome.status in _NO_METRICS and self._target.traces is not None:
            self._metrics = None
            self._say("metrics", f"{self._target.place} takes no metrics ({outcome.why}), and gets none; "
                                 "OTEL_METRICS_EXPORTER=none says so beforehand")
        else:
            self._taken(outcome)

    def _taken(self, sent: Sent) -> bool:
        if sent.outcome == "taken":
            if sent.why:
                self._say("partly", f"{self._target.place} does not take everything: {sent.why}")
            if self.state == "down":
                self._say("again", f"{self._target.place} is there again")
            self.state = "fine"
            return True
        if sent.outcome == "refused":
            self.state = "refused"
            self._say("refused", f"{self._target.place} refuses what is exported ({sent.why}): nothing more is sent; look at the "
                                 "address and at OTEL_EXPORTER_OTLP_HEADERS")
        else:
            self.state = "down"
            name = "RUN" if self._file is None else self._file.stem
            self._say("down", f"{self._target.place} can't be reached ({sent.why}); what is missing is sent once it is there, or "
                              f"afterwards: `sop export {name} --otel URL`")
        return False

    def _say(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._tell(f"OpenTelemetry: {text}")

    def _named(self) -> dict[str, str | int | float | bool | tuple[str, ...]]:
        """The resource. Two runs at once are two instances: their sums are not one."""
        return {"service.instance.id": self.trace.hex(), **self._target.resource}

    def _write(self) -> None:
        try:
            self._note.write(self.trace, self.sent)
        except OSError as error:
            self._say("note", f"how far the export came can't be noted beside the journal ({error.strerror}); a resume sends "
                              "spans again")

    def _begun(self) -> Spans:
        content = None
        if self._target.content:
            content = Content(self._journal.blob, Secrets(self._secrets(), self._settings.variable).masked, self._target.longest)
        name = "" if self._file is None else self._file.stem
        opened = next((event for _, event in self._journal.events(RunOpened)), None)
        self.sent = 0 if opened is None else self._note.sent(trace_id(opened, name))
        return Spans(self._journal.blob, content, name)

    def _secrets(self) -> tuple[str, ...]:
        compiled = dict.fromkeys([*(event.compiled for _, event in self._journal.events(RunOpened)),
                                  *(event.compiled for _, event in self._journal.events(Resumed))])
        programs = [Program.model_validate_json(self._journal.blob(digest)) for digest in compiled]
        return tuple(dict.fromkeys(name for program in programs for one in program.all() for name in one.sop.secrets))


def export_whole(path: Path, target: Target, settings: Settings, tell: Tell) -> Exporter:
    """Exports a run that is over, or was killed: what a collector has not got yet, or all of it, where that is nothing.

    Raises UsageError where there is no such run, RunBusy, JournalError. What the collector says is told, and in the exporter's
    `state`.
    """
    with Journal.read(path) as journal:
        exporter = Exporter(journal, target, settings, tell)
        last = journal.last
        if not last:
            raise JournalError(f"{path} is empty: nothing happened in that run")
        _all(exporter, target)
        if exporter.state == "fine" and not exporter.count:
            exporter = Exporter(journal, target, settings, tell)
            exporter.again()
            _all(exporter, target)
        return exporter


def _all(exporter: Exporter, target: Target) -> None:
    for number, event in exporter.unheard():
        exporter.hear(number, event)
        if exporter.waiting >= BATCH and not exporter.send(target.timeout):
            return
    exporter.killed()
    exporter.send(target.timeout, measured=True)
