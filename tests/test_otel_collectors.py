"""Collectors that are slow, gone, or say no; and what says which collector it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess, ExportTraceServiceResponse
from otel_runs import closed, complete, journal_of, laid
from otlp_collector import Collector, collector

from metaflow_agents.api.telemetry import Target, live, target_of
from metaflow_agents.api.telemetry.note import Note
from metaflow_agents.cli import command
from metaflow_agents.errors import UsageError
from metaflow_agents.settings import Settings
from metaflow_agents.views.spans import Spans


@pytest.fixture
def otlp() -> Iterator[Collector]:
    with collector() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return laid(tmp_path, monkeypatch)


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
    said = capsys.readouterr()
    assert "letters-1: success" in said.out and "can't be reached (timed out)" in said.err
    assert otlp.spans == []


def test_a_collector_that_is_too_slow_for_the_end_is_told(folder: Path, otlp: Collector, capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is left alone then; the next request of it would come too late."""
    over = threading.Event()
    monkeypatch.setattr(live, "_LAST", -0.9)
    monkeypatch.setattr(live.Live, "run", lambda *_: over.wait(10))
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


@pytest.mark.one_in(4)
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
