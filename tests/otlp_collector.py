"""A collector on loopback that speaks OTLP over HTTP: what it is sent is read by OpenTelemetry's own classes, and kept."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What came. `spans`: as bytes, in the order in which they came, those of a repeat too. `answers` are given before any other:
    status and body; `hold`: while it is set, no request is answered.
    """

    url: str = ""
    spans: list[bytes] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def distinct(self) -> dict[bytes, Span]:
        """Span by id. Raises AssertionError where one id came with two contents."""
        found: dict[bytes, bytes] = {}
        for data in list(self.spans):
            span = Span.FromString(data)
            assert found.setdefault(span.span_id, data) == data, f"{span.name} came twice, and differs"
        return {key: Span.FromString(data) for key, data in found.items()}

    def named(self, start: str) -> list[Span]:
        """The spans whose names begin like this, by their start."""
        return sorted((span for span in self.distinct.values() if span.name.startswith(start)),
                      key=lambda span: span.start_time_unix_nano)

    def points(self, name: str) -> list[Any]:
        """The points of a metric, as it was last sent."""
        return [point for metric in self.metrics[-1].resource_metrics[0].scope_metrics[0].metrics if metric.name == name
                for point in getattr(metric, metric.WhichOneof("data")).data_points]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """One request; what is answered."""
        with self.lock:
            self.requests.append((path, headers))
            if self.answers:
                return self.answers.pop(0)
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            self.bodies.append(body)
            if path.endswith("/v1/metrics"):
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
                return 200, b""
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(told(resource.resource.attributes))
                for scope in resource.scope_spans:
                    self.spans += [span.SerializeToString(deterministic=True) for span in scope.spans]
            return 200, ExportTraceServiceResponse().SerializeToString()


def told(attributes: Any) -> dict[str, Any]:
    """Attributes as a dictionary."""
    def value(one: AnyValue) -> Any:
        kind = one.WhichOneof("value")
        return [value(each) for each in one.array_value.values] if kind == "array_value" else getattr(one, kind or "string_value")

    return {one.key: value(one.value) for one in attributes}


@contextmanager
def collector() -> Iterator[Collector]:
    """One that listens while this is open."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if found.hold.is_set():
                found.closed.wait()
                self.close_connection = True
                return
            status, answer = found.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", answer.decode())
                answer = b""
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
