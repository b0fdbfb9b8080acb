"""What the tests of the export share: a SOP and its model, a collector, and what a collector has to have got of a journal."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_collector import Collector
from scripted import write

from metaflow_agents.api.telemetry import Target, target_of, wire
from metaflow_agents.journal.journal import Journal
from metaflow_agents.settings import Settings
from metaflow_agents.views.spans import Spans

LETTERS = """
    sop: letters
    inputs: {topic: {type: string, default: rain}}
    secrets: [KEY]
    roles: {writer: {profile: a writer}, critic: {profile: a critic}}
    artifacts: {letter: {}, notes: {each: string}, verdict: {}}
    models: {default: "python:desk.py:answer"}
    steps:
      write: {role: writer, needs: [topic], makes: letter, task: "Write about {{ topic }}, the canary of prompts."}
      note: {role: critic, needs: [letter], makes: notes, foreach: {in: "'abcdefghijklmnopqrst' | list", parallel: 2}}
      judge: {role: critic, needs: [notes], makes: verdict}
"""
DESK = """
    import asyncio
    import os

    async def answer(request):
        await asyncio.sleep(float(os.environ.get("SLOW", "0")))
        return f"{request.key}: the canary of answers, {os.environ.get('KEY')}"
"""


def laid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a SOP and its model: it is the current one from here on."""
    write(folder, LETTERS, desk_py=DESK)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KEY", "hunter2hunter2")
    return folder


def target(url: str, **settings: str) -> Target:
    """A collector that is told soon."""
    return target_of(url, Settings.read({"OTEL_BSP_SCHEDULE_DELAY": "20", **settings}))


def journal_of(run: str = "letters-1") -> Path:
    return Path("workspace", ".journals", f"{run}.db")


def expected(path: Path) -> dict[bytes, bytes]:
    """The spans that a journal has, by id, as a collector keeps them."""
    with Journal.read(path) as journal:
        spans = Spans(journal.blob, name=path.stem)
        found = [span for number, event in journal.events() for span in spans.hear(number, event)]
    request = ExportTraceServiceRequest.FromString(wire.traces(found, {}, "1"))
    return {span.span_id: span.SerializeToString(deterministic=True) for span in request.resource_spans[0].scope_spans[0].spans}


def complete(otlp: Collector, path: Path) -> None:
    """One trace, no span twice, none missing, and repeats are the same bytes."""
    assert {key: span.SerializeToString(deterministic=True) for key, span in otlp.distinct.items()} == expected(path)
    assert len({span.trace_id for span in otlp.distinct.values()}) == 1


def closed() -> str:
    """An address at which nobody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{server.getsockname()[1]}"
