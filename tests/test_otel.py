"""Export to a collector: while a run goes on, after kills, and afterwards.

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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from otel_runs import closed, complete, expected, journal_of, laid, target
from otlp_collector import Collector, collector, told
from patience import PATIENCE, until
from scripted import Scripted

from metaflow_agents import fork, start
from metaflow_agents.api.telemetry import exporting
from metaflow_agents.api.telemetry.exporter import Exporter, export_whole
from metaflow_agents.cli import command
from metaflow_agents.journal.journal import Journal
from metaflow_agents.schema.event import Resumed
from metaflow_agents.settings import Settings
from metaflow_agents.views.spans import names

SOP = Path(sys.executable).with_name("sop")


@pytest.fixture
def otlp() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return laid(tmp_path, monkeypatch)


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


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(4)
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
