"""What is written for the wire is what OpenTelemetry's own classes write and read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from otlp_collector import told

from metaflow_agents.api.telemetry import wire
from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.metrics import Histogram, Point
from metaflow_agents.views.spans.span import Span, SpanEvent

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NUMBER = st.integers(-2**63, 2**63 - 1)
FIGURE = st.floats(allow_nan=False)
BY_TYPE = {"text": TEXT, "number": NUMBER, "small": st.integers(0, 300), "figure": FIGURE, "truth": st.booleans(),
           "list": st.lists(TEXT, max_size=3).map(tuple)}
ATTRIBUTES = st.fixed_dictionaries({}, optional=BY_TYPE)      # a name has values of one type
TIME, NAME = st.floats(1, 4e9), TEXT.filter(bool)             # the classes leave out zeros and empty texts
SPAN = st.builds(
    Span, trace=st.binary(min_size=16, max_size=16), id=st.binary(min_size=8, max_size=8),
    parent=st.sampled_from([b"", b"12345678"]), name=NAME, kind=st.sampled_from(["internal", "client"]), start=TIME, end=TIME,
    attributes=ATTRIBUTES, events=st.lists(st.builds(SpanEvent, NAME, TIME, ATTRIBUTES), max_size=3),
    dropped=st.integers(0, 1000), error=st.sampled_from(["", "failed"]), message=TEXT,
    link=st.sampled_from([None, (b"1" * 16, b"2" * 8)]))


@given(st.lists(SPAN, max_size=4), ATTRIBUTES)
def test_spans_are_read_by_the_official_classes_and_written_by_them_as_here(spans: list[Span], resource: dict) -> None:
    data = wire.traces(spans, resource, "1.2")
    request = ExportTraceServiceRequest.FromString(data)
    assert request.SerializeToString() == data
    (held,) = request.resource_spans
    (scope,) = held.scope_spans
    assert told(held.resource.attributes) == {name: list(value) if isinstance(value, tuple) else value
                                              for name, value in resource.items()}
    assert (scope.scope.name, scope.scope.version) == (names.SCOPE, "1.2")
    assert told(scope.scope.attributes) == {"sop.conventions": names.CONVENTIONS}
    for span, read in zip(spans, scope.spans, strict=True):
        assert (read.trace_id, read.span_id, read.parent_span_id, read.name) == (span.trace, span.id, span.parent, span.name)
        assert read.kind == {"internal": trace_pb2.Span.SPAN_KIND_INTERNAL, "client": trace_pb2.Span.SPAN_KIND_CLIENT}[span.kind]
        assert (read.start_time_unix_nano, read.end_time_unix_nano) == (int(span.start * 1e9), int(span.end * 1e9))
        assert told(read.attributes) == {name: list(value) if isinstance(value, tuple) else value
                                         for name, value in span.attributes.items()}
        assert [(one.name, one.time_unix_nano, len(one.attributes)) for one in read.events] == [
            (one.name, int(one.at * 1e9), len(one.attributes)) for one in span.events]
        assert read.dropped_events_count == span.dropped and read.flags == 1
        assert [(one.trace_id, one.span_id) for one in read.links] == ([] if span.link is None else [span.link])
        assert read.status.code == (trace_pb2.Status.STATUS_CODE_ERROR if span.error else trace_pb2.Status.STATUS_CODE_UNSET)
        assert read.status.message == (span.message if span.error else "")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.lists(st.integers(0, 2**40), max_size=3), FIGURE)
def test_metrics_are_read_by_the_official_classes(figures: list[float], counts: list[int], cost: float) -> None:
    histogram = Histogram(names.BUCKETS)
    for figure in figures:
        histogram.add(figure)
    histogram.settle()
    labels = ((names.OPERATION, "chat"), (names.PORT, 80))
    points = [Point(names.INFERENCE_DURATION, labels, histogram), Point(names.SPENT, (), cost),
              *(Point(names.INFERENCE_INPUT, (("number", number),), count) for number, count in enumerate(counts))]
    data = wire.metrics(points, 1.5, 2.5, {"service.name": "x"}, "1")
    request = ExportMetricsServiceRequest.FromString(data)
    assert request.SerializeToString() == data
    found = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert set(found) == {point.metric.name for point in points}
    duration = found[names.INFERENCE_DURATION.name]
    (point,) = duration.histogram.data_points
    assert duration.unit == "s" and duration.description
    assert duration.histogram.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert (point.count, list(point.explicit_bounds)) == (len(figures), list(names.BUCKETS))
    assert sum(point.bucket_counts) == len(figures) and len(point.bucket_counts) == len(names.BUCKETS) + 1
    assert point.bucket_counts[0] == sum(figure <= 0.01 for figure in figures)
    assert (point.min, point.max) == (min(figures), max(figures)) and math.isclose(point.sum, sum(figures), abs_tol=1e-6)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1_500_000_000, 2_500_000_000)
    assert told(point.attributes) == dict(labels)
    assert found[names.SPENT.name].sum.is_monotonic and found[names.SPENT.name].sum.data_points[0].as_double == cost
    if counts:
        assert [each.as_int for each in found[names.INFERENCE_INPUT.name].sum.data_points] == counts


@given(st.integers(0, 2**62), TEXT)
def test_what_a_collector_leaves_out_is_read(count: int, why: str) -> None:
    answer = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=count, error_message=why))
    assert wire.refused(answer.SerializeToString()) == (count, why)


@given(st.binary(max_size=40))
def test_an_answer_that_is_none_is_a_value_error_at_worst(data: bytes) -> None:
    try:
        count, why = wire.refused(data)
    except ValueError:
        return
    assert isinstance(count, int) and isinstance(why, str)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_surrogate_pair_does_not_stop_the_export(text: str) -> None:
    span = Span(b"1" * 16, b"2" * 8, b"", text, "internal", 1.0, 2.0, {"said": text, "list": (text,)})
    (read,) = ExportTraceServiceRequest.FromString(wire.traces([span], {}, "1")).resource_spans[0].scope_spans[0].spans
    assert read.name == text.replace("\ud800", "?").replace("\udfff", "?")
