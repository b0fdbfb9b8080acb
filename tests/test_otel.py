"""Export to a collector: while a run goes on, after kills, afterwards; with collectors that are slow, gone, or say no.

The collector is a server on loopback that reads what it is sent by OpenTelemetry's own classes (`otlp_collector.py`); where
`rotel`, a collector of somebody else's, is installed, runs are sent through that too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from otlp_collector import Collector, collector, told
from patience import PATIENCE, until
from scripted import Scripted, write

from metaflow_agents import fork, start
from metaflow_agents.api.telemetry import Target, exporting, live, target_of, wire
from metaflow_agents.api.telemetry.exporter import Exporter, export_whole
from metaflow_agents.api.telemetry.note import Note
from metaflow_agents.cli import command
from metaflow_agents.errors import UsageError
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Resumed
from metaflow_agents.settings import Settings
from metaflow_agents.views.spans import Spans, names

SOP = Path(sys.executable).with_name("sop")
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


@pytest.fixture
def otlp() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a SOP and its model lie; the current folder."""
    write(tmp_path, LETTERS, desk_py=DESK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", "hunter2hunter2")
    return tmp_path


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


# A run that goes on


def test_a_run_is_exported_while_it_goes_on(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert "OpenTelemetry" not in capsys.readouterr().err
    root, = otlp.named("invoke_workflow")
    assert root.name == "invoke_workflow letters" and not root.parent_span_id
    assert told(root.attributes)[names.OUTCOME] == "success"
    step, = otlp.named("step note")
    assert len([span for span in otlp.named("invoke_agent critic") if span.parent_span_id == step.span_id]) == 20
    assert len(otlp.named("chat desk.py:answer")) == 22 and {path for path, _ in otlp.requests} == {"/v1/traces", "/v1/metrics"}
    assert otlp.resources[0]["service.name"] == "metaflow-agents"
    assert otlp.resources[0]["service.instance.id"] == root.trace_id.hex()
    duration, = otlp.points("gen_ai.client.inference.duration")
    assert duration.count == 22 and told(duration.attributes) == {
        names.OPERATION: "chat", names.PROVIDER: "python", names.MODEL: "desk.py:answer"}
    assert sum(point.as_int for point in otlp.points("gen_ai.client.inference.usage.input_tokens")) > 0


def test_spans_come_before_the_run_ends(folder: Path, otlp: Collector) -> None:
    async def going() -> None:
        over = asyncio.Event()

        async def answer(request: Any) -> str:
            if request.step == "judge":
                await over.wait()
            return "said"

        async with start(folder / "desk.yaml", model=answer, workspace=folder / "workspace") as run, \
                exporting(run.journal, target(otlp.url)):
            await asyncio.to_thread(until, lambda: len(otlp.spans) >= 40, "spans come")
            there = otlp.named("step note")
            over.set()
            assert (await run.result()).ok and there

    asyncio.run(going())
    complete(otlp, journal_of())


async def test_a_run_in_memory_is_exported_too_and_notes_nothing(folder: Path, otlp: Collector) -> None:
    async with start(folder / "desk.yaml", model=Scripted(), workspace=None) as run, exporting(run.journal, target(otlp.url)):
        assert (await run.result()).ok
    assert len(otlp.distinct) == 1 + 3 + 20 + 22 and not (folder / "workspace").exists()


def test_the_usual_variables_are_enough_and_headers_go_out(folder: Path, otlp: Collector,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{otlp.url}/base", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,other=1",
                        "OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
                        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_METRICS_EXPORTER": "none"}.items():
        monkeypatch.setenv(name, value)
    assert command(["run", "desk.yaml"]) == 0
    complete(otlp, journal_of())
    assert {path for path, _ in otlp.requests} == {"/base/v1/traces"}
    _, headers = otlp.requests[0]
    assert (headers["x-key"], headers["other"], headers["content-encoding"]) == ("a b", "1", "gzip")
    assert headers["content-type"] == "application/x-protobuf"
    assert (otlp.resources[0]["service.name"], otlp.resources[0]["deployment.environment"]) == ("mine", "test")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    before = len(otlp.requests)
    assert command(["run", "desk.yaml"]) == 0 and len(otlp.requests) == before


def test_without_it_nothing_is_loaded_and_nobody_listens(folder: Path) -> None:
    code = """
import sys
from metaflow_agents.journal.journal import Journal
made = []
init = Journal.__init__
Journal.__init__ = lambda self, *a, **k: (made.append(self), init(self, *a, **k))[1]
from metaflow_agents.cli import command
from metaflow_agents.cli import drive
shown = drive._shown
async def seen(going, face):
    print("listeners", [getattr(hear, "__module__", "") for hear in going.journal.listeners])
    return await shown(going, face)
drive._shown = seen
assert command(["run", "desk.yaml"]) == 0
print("loaded", [name for name in sys.modules if "telemetry" in name or "otel" in name.lower() or "views.spans" in name])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "loaded []" in done.stdout, done.stdout
    assert "listeners ['metaflow_agents.journal." in done.stdout and "telemetry" not in done.stdout, done.stdout


# Content


def test_nothing_that_was_asked_or_said_is_exported_and_no_secret_ever(folder: Path, otlp: Collector) -> None:
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    sent = b"".join(otlp.bodies)
    assert b"canary" not in sent and b"hunter2" not in sent and b"note@1" not in sent
    assert command(["export", "letters-1", "--otel", otlp.url, "--otel-content"]) == 0
    sent = b"".join(otlp.bodies)
    assert b"the canary of prompts" in sent and b"the canary of answers" in sent and b"hunter2" not in sent
    assert b"[secret KEY]" in sent and b"note@1[a]~0/turn.0" in sent


def test_with_content_a_request_holds_no_more_than_collectors_take(folder: Path, otlp: Collector,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaflow_agents.api.telemetry.exporter._MOST_TEXT", 5_000)
    assert command(["run", "desk.yaml"]) == 0
    assert command(["export", "letters-1", "--otel", otlp.url, "--otel-content"]) == 0
    assert len(otlp.bodies) > 3 and max(map(len, otlp.bodies)) < 20_000
    assert {span.span_id for span in otlp.distinct.values()} == set(expected(journal_of()))
    assert len(otlp.spans) == len(otlp.distinct)


def test_the_usual_variable_of_content(folder: Path, otlp: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    chat = otlp.named("chat")[0]
    assert "canary" in json.loads(told(chat.attributes)[names.INPUT_MESSAGES])[0]["parts"][0]["content"]


# Collectors that are slow, gone, or say no


def closed() -> str:
    """An address at which nobody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_collector_that_is_not_there_is_said_once_and_costs_the_run_nothing(
        folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("SLOW", "0.02")
    address = closed()
    assert command(["run", "desk.yaml", "--otel", address]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "OpenTelemetry" in line]
    assert len(said) == 1 and "can't be reached" in said[0] and "sop export letters-1 --otel URL" in said[0]
    assert not journal_of().with_name("letters-1.db.otel").exists()
    assert command(["export", "letters-1", "--otel", address]) == 1
    assert "letters-1 was not exported" in capsys.readouterr().err
    assert command(["export", "letters-1", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert f"{len(otlp.distinct)} spans sent to {otlp.url.removeprefix('http://')}" in capsys.readouterr().out


def test_a_collector_that_does_not_answer_holds_up_neither_the_run_nor_its_end_for_long(
        folder: Path, otlp: Collector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It answers when the test is over: without a deadline this test would never end."""
    monkeypatch.setattr(live, "_LAST", 0.2)
    otlp.hold.set()
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    assert "letters-1: success" in capsys.readouterr().out
    assert otlp.spans == []


def test_a_collector_that_is_too_slow_for_the_end_is_told(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is left alone then; the next request of it would come too late."""
    over = threading.Event()
    monkeypatch.setattr(live, "_LAST", -0.9)
    monkeypatch.setattr(live.Live, "run", lambda *_: over.wait(PATIENCE))
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    over.set()
    assert "is too slow for what was left at the end; `sop export letters-1 --otel URL`" in capsys.readouterr().err


def test_what_a_collector_refuses_is_said_once_and_not_sent_again(folder: Path, otlp: Collector,
                                                                  capsys: pytest.CaptureFixture[str],
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("SLOW", "0.02")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20hunter2")
    otlp.answers = [(401, b"no")] * 50
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    error = capsys.readouterr().err
    assert error.count("OpenTelemetry") == 1 and "it answers 401" in error and "OTEL_EXPORTER_OTLP_HEADERS" in error
    assert "hunter2" not in error and len(otlp.requests) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_a_collector_can_not_take_now_is_sent_again_as_it_was(folder: Path, otlp: Collector, status: int,
                                                                   capsys: pytest.CaptureFixture[str],
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("SLOW", "0.02")
    otlp.answers = [(status, b"")] * 2
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert len(otlp.spans) == len(otlp.distinct)
    error = capsys.readouterr().err
    assert error.count("can't be reached") == 1 and error.count("is there again") == 1


def test_a_redirect_is_not_followed_for_the_keys_are_for_this_host(folder: Path, otlp: Collector,
                                                                   capsys: pytest.CaptureFixture[str]) -> None:
    with collector() as other:
        otlp.answers = [(307, f"{other.url}/v1/traces".encode())] * 50
        assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
        assert other.requests == [] and "it answers 307" in capsys.readouterr().err


def test_what_a_collector_leaves_out_and_metrics_that_it_does_not_take_are_said(folder: Path, otlp: Collector,
                                                                               capsys: pytest.CaptureFixture[str]) -> None:
    partly = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="too old"))
    otlp.answers = [(200, partly.SerializeToString()), (404, b"")]
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    error = capsys.readouterr().err
    assert "it leaves out 3: too old" in error and "takes no metrics (it answers 404" in error
    assert "OTEL_METRICS_EXPORTER=none" in error


def test_a_fault_of_the_export_is_told_and_the_run_goes_on(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str],
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spans, "hear", lambda *_: 1 // 0)
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    assert "nothing more is exported in this run: ZeroDivisionError" in capsys.readouterr().err


def test_what_does_not_fit_into_the_queue_is_read_from_the_journal(folder: Path, otlp: Collector,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST", 5)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("SLOW", "0.01")
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())


def test_a_note_that_can_not_be_written_is_told(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("metaflow_agents.api.telemetry.note.write_whole", full)
    assert command(["run", "desk.yaml", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert "can't be noted beside the journal (No space left on device)" in capsys.readouterr().err


@pytest.mark.parametrize("held", [b"", b"{", b"[]", b'{"x": 1}', b'{"NAME": {"trace": "TRACE", "sent": "all"}}', b"\xff"])
def test_a_note_that_is_none_counts_as_none(tmp_path: Path, held: bytes) -> None:
    note = Note(tmp_path / "a.db", "NAME")
    (tmp_path / "a.db.otel").write_bytes(held.replace(b"TRACE", b"00" * 16))
    assert note.sent(bytes(16)) == 0
    note.write(bytes(16), 7)
    assert note.sent(bytes(16)) == 7 and note.sent(b"1" * 16) == 0 and Note(tmp_path / "a.db", "OTHER").sent(bytes(16)) == 0


# Kills


@contextmanager
def process(folder: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`sop` in a process of its own, which is over afterwards."""
    going = subprocess.Popen([str(SOP), *words], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "25", **environment})
    try:
        yield going
    finally:
        going.kill()
        going.communicate()


def events_in(path: Path) -> int:
    if not path.exists():
        return 0
    with Journal.read(path) as journal:
        return journal.last


@pytest.mark.parametrize("kills", [pytest.param(20, marks=pytest.mark.slow), 3])
def test_a_run_that_is_killed_at_random_moments_is_one_trace_without_a_span_twice_or_missing(
        folder: Path, otlp: Collector, kills: int) -> None:
    path, killed = folder / journal_of("one"), 0
    while killed < kills:
        before = events_in(path)
        words = ["run", "desk.yaml", "--name", "one"] if not before else ["resume", "one"]
        with process(folder, *words, "--otel", otlp.url, SLOW="0.03") as going:
            more = random.randint(1, 6)
            until(lambda: events_in(path) >= before + more or going.poll() is not None, "the run goes on")  # noqa: B023
            time.sleep(random.uniform(0, 0.06))
            assert going.poll() is None, f"it ended before it was killed {kills} times: {going.communicate()[0]}"
            going.send_signal(signal.SIGKILL)
            killed += 1
    with process(folder, "resume", "one", "--otel", otlp.url) as going:
        out, _ = going.communicate(timeout=PATIENCE)
        assert going.returncode == 0, out
    complete(otlp, path)
    with Journal.read(path) as journal:
        resumed = len(list(journal.events(Resumed)))
    assert len(otlp.named("invoke_workflow")) == resumed + 1 and resumed >= kills


DIES = """
import os, signal, sys
from metaflow_agents.api.telemetry.note import Note
write, left = Note.write, int(sys.argv[1])
def dying(self, trace, sent):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, trace, sent)
Note.write = dying
from metaflow_agents.cli import command
sys.exit(command(sys.argv[2:]))
"""


def test_a_kill_between_sending_and_noting_sends_the_same_spans_again_byte_for_byte(folder: Path, otlp: Collector) -> None:
    environment = {**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "20", "SLOW": "0.03"}
    words = ["run", "desk.yaml", "--name", "one", "--otel", otlp.url]
    done = subprocess.run([sys.executable, "-c", DIES, "2", *words], cwd=folder, env=environment, capture_output=True,
                          check=False)
    assert done.returncode == -signal.SIGKILL and otlp.spans
    assert command(["resume", "one", "--otel", otlp.url]) == 0
    complete(otlp, folder / journal_of("one"))
    assert len(otlp.spans) > len(otlp.distinct)                 # what was sent and not noted came again


def test_a_resume_sends_what_is_missing_and_no_more(folder: Path, otlp: Collector) -> None:
    assert command(["run", "desk.yaml", "--until", "write", "--otel", otlp.url]) == 0
    assert command(["resume", "letters-1", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert len(otlp.spans) == len(otlp.distinct) and len(otlp.named("invoke_workflow")) == 2


def test_what_came_while_nobody_exported_is_sent_by_the_next_who_does(folder: Path, otlp: Collector) -> None:
    assert command(["run", "desk.yaml", "--until", "write", "--otel", otlp.url]) == 0
    assert command(["resume", "letters-1", "--until", "note"]) == 0
    assert command(["resume", "letters-1", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert len(otlp.spans) == len(otlp.distinct)


# Runs that are over


def test_export_sends_what_is_missing_or_all_of_it_where_nothing_is(folder: Path, otlp: Collector,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "desk.yaml"]) == 0
    assert command(["export", "letters-1", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    whole = len(otlp.distinct)
    assert f"letters-1: {whole} spans sent" in capsys.readouterr().out and len(otlp.spans) == whole
    assert command(["export", "letters-1", "--otel", otlp.url]) == 0
    complete(otlp, journal_of())
    assert len(otlp.spans) == 2 * whole
    note = journal_of().with_name("letters-1.db.otel")
    held = json.loads(note.read_text())
    held[next(iter(held))]["sent"] = 12
    note.write_text(json.dumps(held))
    assert command(["export", "letters-1", "--otel", otlp.url]) == 0
    assert 2 * whole < len(otlp.spans) < 3 * whole


def test_a_run_that_was_killed_is_exported_whole_and_its_resume_sends_none_of_it_again(folder: Path, otlp: Collector) -> None:
    path = folder / journal_of("one")
    with process(folder, "run", "desk.yaml", "--name", "one", SLOW="0.03") as going:
        until(lambda: events_in(path) > 20, "the run goes on")
        going.send_signal(signal.SIGKILL)
        going.wait()
    assert command(["export", "one", "--otel", otlp.url]) == 0
    first = len(otlp.spans)
    root, = otlp.named("invoke_workflow")
    assert told(root.attributes)[names.ERROR] == "interrupted" and root.status.code == 2
    assert {span.parent_span_id for span in otlp.distinct.values()} <= {b"", *otlp.distinct}
    assert command(["resume", "one", "--otel", otlp.url]) == 0
    complete(otlp, path)
    assert len(otlp.spans) == len(otlp.distinct) > first


def test_several_runs_and_one_that_is_not_there(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "desk.yaml", "--name", "one"]) == 0
    assert command(["run", "desk.yaml", "--name", "two"]) == 0
    assert command(["export", "one", "two", "--otel", otlp.url]) == 0
    assert len({span.trace_id for span in otlp.distinct.values()}) == 2
    assert command(["export", "three", "--otel", otlp.url]) == 2
    assert "no run `three`" in capsys.readouterr().err


def test_a_run_that_goes_on_is_not_exported_by_somebody_else(folder: Path, otlp: Collector,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    with process(folder, "run", "desk.yaml", "--name", "one", SLOW="5"):
        until(lambda: events_in(folder / journal_of("one")) > 2, "the run goes on")
        assert command(["export", "one", "--otel", otlp.url]) == 2
    assert "is open in process" in capsys.readouterr().err and otlp.requests == []


def test_a_fork_is_a_trace_of_its_own_with_a_link_to_that_of_its_source(folder: Path, otlp: Collector) -> None:
    assert command(["run", "desk.yaml", "--name", "one", "--otel", otlp.url]) == 0
    before = dict(otlp.distinct)
    fork("one", at="judge@1", new_name="two", workspace=folder / "workspace")
    assert command(["resume", "two", "--otel", otlp.url]) == 0
    new = [span for key, span in otlp.distinct.items() if key not in before]
    (root,) = [span for span in new if not span.parent_span_id]
    assert {span.trace_id for span in new} == {root.trace_id}
    assert len([span for span in new if span.name.startswith("chat")]) == 22        # as `sop show` tells a fork, too
    (link,) = root.links
    assert before[link.span_id].name == "invoke_workflow letters" and before[link.span_id].trace_id == link.trace_id
    assert told(root.attributes)[names.RUN] == "two" and told(root.attributes)[names.FORKED] == "one"
    assert len(otlp.spans) == len(otlp.distinct) == len(before) + len(new)


# Options and variables


@pytest.mark.parametrize(("endpoint", "environment", "traces", "metrics"), [
    (None, {}, None, None),
    ("", {}, "http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics"),
    ("http://a:1/", {}, "http://a:1/v1/traces", "http://a:1/v1/metrics"),
    ("http://a:1/v1/traces", {}, "http://a:1/v1/traces", "http://a:1/v1/metrics"),
    ("https://a/api/public/otel", {"OTEL_METRICS_EXPORTER": "none"}, "https://a/api/public/otel/v1/traces", None),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}, "http://b/v1/traces", "http://b/v1/metrics"),
    (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/x"}, "http://b/x", None),
    ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/x"}, "http://b/x", "http://localhost:4318/v1/metrics"),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_TRACES_EXPORTER": "none"}, None, "http://b/v1/metrics"),
    ("http://a", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b/x"}, "http://a/v1/traces", "http://a/v1/metrics"),
    (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_SDK_DISABLED": "true"}, None, None),
    (None, {"OTEL_SERVICE_NAME": "x"}, None, None),
])
def test_where_to(endpoint: str | None, environment: dict[str, str], traces: str | None, metrics: str | None) -> None:
    found: Target | None = target_of(endpoint, Settings.read(environment)) if endpoint is not None else \
        target_of(None, Settings.read(environment))
    urls = (None, None) if found is None else tuple(one and one.url for one in (found.traces, found.metrics))
    assert urls == (traces, metrics)


@pytest.mark.parametrize(("endpoint", "environment", "says"), [
    ("a:4318", {}, "`--otel a:4318`: this is no address of a collector; write like `http://localhost:4318`"),
    ("ftp://a", {}, "no address"), ("http://a:0", {}, "no address"), ("http://[a", {}, "no address"),
    ("http://me:hunter2@a", {}, "no user, query or fragment; a key goes into OTEL_EXPORTER_OTLP_HEADERS"),
    ("http://a?key=hunter2", {}, "no user, query or fragment"),
    ("", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`, and only `http/protobuf`"),
    ("", {"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "it is `gzip` or `none`"),
    ("", {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT is `soon`: it is a whole number above 0"),
    ("", {"OTEL_EXPORTER_OTLP_HEADERS": "a=1,hunter2"}, "OTEL_EXPORTER_OTLP_HEADERS: part 2 is not `NAME=VALUE`"),
    ("", {"OTEL_EXPORTER_OTLP_HEADERS": "a=hunter2%0d%0ab: c"}, "OTEL_EXPORTER_OTLP_HEADERS: part 1"),
    ("", {"OTEL_RESOURCE_ATTRIBUTES": "x"}, "OTEL_RESOURCE_ATTRIBUTES: part 1"),
    ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "nowhere"}, "`OTEL_EXPORTER_OTLP_ENDPOINT nowhere`: this is no address"),
    ("", {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, "exports nothing"),
])
def test_what_makes_no_sense_is_told_with_the_fix_and_no_key(endpoint: str, environment: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        target_of(endpoint, Settings.read(environment))
    assert says in str(error.value) and "hunter2" not in str(error.value)


def test_a_key_stands_in_no_repr() -> None:
    settings = Settings.read({"OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2"})
    assert "hunter2" not in repr(settings) + repr(target_of("http://a", settings))


def test_the_option_takes_an_address_or_none(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp.url)
    assert command(["run", "--otel", "desk.yaml"]) == 0
    assert command(["run", "desk.yaml", "--otel", "--topic", "snow"]) == 0
    assert command(["export", "--otel", "letters-1"]) == 0
    assert len({span.trace_id for span in otlp.distinct.values()}) == 2
    before = len(otlp.requests)
    assert command(["run", "desk.yaml", "--otel", "localhost:4318"]) == 2
    assert "`--otel localhost:4318`: this is no address of a collector" in capsys.readouterr().err
    assert command(["run", "desk.yaml", "--otel-content"]) == 0         # the variable says where to
    assert len(otlp.requests) > before
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert command(["run", "desk.yaml", "--otel-content"]) == 2
    assert "add `--otel`" in capsys.readouterr().err


def test_a_variable_that_makes_no_sense_hinders_no_run(folder: Path, capsys: pytest.CaptureFixture[str],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert command(["run", "desk.yaml"]) == 0
    assert "nothing is exported to OpenTelemetry: OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`" in capsys.readouterr().err


def test_options_that_write_a_file_do_not_go_with_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["export", "one", "--otel", "--recording", "a.jsonl"]) == 2
    assert command(["export", "one", "--otel-content"]) == 2
    error = capsys.readouterr().err
    assert "give one of them" in error and "add `--otel`" in error


def test_a_program_exports_a_run_afterwards(folder: Path, otlp: Collector) -> None:
    assert command(["run", "desk.yaml"]) == 0
    exported = export_whole(journal_of(), target(otlp.url), Settings.read({}), lambda _: None)
    assert isinstance(exported, Exporter) and exported.state == "fine" and exported.count == len(otlp.distinct)


# A collector of somebody else's


@pytest.mark.skipif(find_spec("rotel") is None, reason="rotel, a collector, is not installed here: no wheel for this machine")
def test_a_real_collector_takes_it_and_passes_it_on(folder: Path, otlp: Collector) -> None:
    spec = find_spec("rotel")
    assert spec is not None and spec.origin is not None
    http, grpc = (int(closed().rpartition(":")[2]) for _ in range(2))
    rotel = subprocess.Popen(
        [str(Path(spec.origin).with_name("rotel-agent")), "start", "--otlp-http-endpoint", f"127.0.0.1:{http}",
         "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--exporter", "otlp", "--otlp-exporter-endpoint", otlp.url,
         "--otlp-exporter-protocol", "http", "--pid-file", str(folder / "pid"), "--log-file", str(folder / "log")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def listens() -> bool:
            try:
                socket.create_connection(("127.0.0.1", http), 1).close()
            except OSError:
                return False
            return True

        until(listens, "rotel listens")
        assert command(["run", "desk.yaml", "--otel", f"http://127.0.0.1:{http}"]) == 0
        until(lambda: len(otlp.spans) >= len(expected(journal_of())) and otlp.metrics, "it passes everything on")
        complete(otlp, journal_of())
        assert otlp.points("gen_ai.client.inference.duration")[0].count == 22
    finally:
        rotel.kill()
        rotel.wait()
