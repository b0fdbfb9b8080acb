"""Spans and metrics as OTLP has them: protobuf messages, written by hand, since they are few and never change their numbers.

A span takes an eighth of the time that the SDK takes, and nothing is imported for it (decision 127); the tests read what is
written here by OpenTelemetry's own classes, and find the same bytes.
Source: https://github.com/open-telemetry/opentelemetry-proto/tree/v1.9.0/opentelemetry/proto,
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

from metaflow_agents.views.spans import names
from metaflow_agents.views.spans.metrics import Histogram, Point
from metaflow_agents.views.spans.span import Attribute, Attributes, Span, SpanEvent

_CUMULATIVE = 2
_KINDS = {"internal": b"\x30\x01", "client": b"\x30\x03"}
_ERROR = b"\x18\x02"
_TIMES = struct.Struct("<BQBQ").pack
_FIXED, _DOUBLE = struct.Struct("<Q").pack, struct.Struct("<d").pack
_SAMPLED = b"\x85\x01" + struct.pack("<I", 0x01)        # field 16, the flags of W3C's trace context


def traces(spans: Iterable[Span], resource: Attributes, version: str) -> bytes:
    """An `ExportTraceServiceRequest`. `version` is that of this package."""
    return _enclosed(b"".join(map(_span, spans)), resource, version)


def metrics(points: Sequence[Point], began: float, at: float, resource: Attributes, version: str) -> bytes:
    """An `ExportMetricsServiceRequest`: sums since `began`, as they stood `at` (Unix time)."""
    times = _TIMES(0x11, _nanos(began), 0x19, _nanos(at))
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.metric.name, []).append(point)
    return _enclosed(b"".join(_metric(found, times) for found in by_name.values()), resource, version)


def refused(answer: bytes) -> tuple[int, str]:
    """Of an `Export…ServiceResponse`: how many spans or points were not taken, and why. Raises ValueError for what is none."""
    count, why = 0, ""
    for number, held in _fields(answer):
        if number == 1 and isinstance(held, bytes):
            for inner, value in _fields(held):
                if inner == 1 and isinstance(value, int):
                    count = value
                elif inner == 2 and isinstance(value, bytes):
                    why = value.decode("utf-8", "replace")
    return count, why


def _enclosed(held: bytes, resource: Attributes, version: str) -> bytes:
    """Resource, scope and what belongs to them. Traces and metrics have the same numbers here."""
    scope = _text(0x0A, names.SCOPE) + _text(0x12, version) + _OF_SCOPE([("sop.conventions", names.CONVENTIONS)])
    return _part(0x0A, _part(0x0A, _OF_RESOURCE(resource.items())) + _part(0x12, _part(0x0A, scope) + held))


def _span(span: Span) -> bytes:
    parts = [b"\x0a\x10", span.trace, b"\x12\x08", span.id]
    if span.parent:
        parts += (b"\x22\x08", span.parent)
    parts += (_span_named(span.name), _KINDS[span.kind], _TIMES(0x39, int(span.start * 1e9), 0x41, int(span.end * 1e9)),
              _OF_SPAN(span.attributes.items()))
    if span.events:
        parts += map(_event, span.events)
    if span.dropped:
        parts.append(b"\x60" + _varint(span.dropped))
    if span.link is not None:
        parts.append(_part(0x6A, b"\x0a\x10" + span.link[0] + b"\x12\x08" + span.link[1]))
    if span.error:
        parts.append(_part(0x7A, (_text(0x12, span.message) if span.message else b"") + _ERROR))
    parts.append(_SAMPLED)
    return _part(0x12, b"".join(parts))


def _event(event: SpanEvent) -> bytes:
    return _part(0x5A, b"\x09" + _FIXED(_nanos(event.at)) + _text(0x12, event.name) + _OF_EVENT(event.attributes.items()))


def _metric(points: Sequence[Point], times: bytes) -> bytes:
    metric = points[0].metric
    told = _text(0x0A, metric.name) + _text(0x12, metric.what) + _text(0x1A, metric.unit)
    held = b"".join(_part(0x0A, _point(point, times)) for point in points) + bytes((0x10, _CUMULATIVE))
    return _part(0x12, told + (_part(0x4A, held) if metric.instrument == "histogram" else _part(0x3A, held + b"\x18\x01")))


def _point(point: Point, times: bytes) -> bytes:
    value = point.value
    if not isinstance(value, Histogram):
        figure = b"\x31" + _FIXED(value) if isinstance(value, int) else b"\x21" + _DOUBLE(value)
        return times + figure + _OF_SUM(point.labels)
    counts = b"".join(map(_FIXED, value.counts))
    bounds = b"".join(map(_DOUBLE, value.bounds))
    least_and_most = b"\x59" + _DOUBLE(value.least) + b"\x61" + _DOUBLE(value.most)
    return (times + b"\x21" + _FIXED(value.count) + b"\x29" + _DOUBLE(value.total) + _part(0x32, counts) + _part(0x3A, bounds)
            + _OF_HISTOGRAM(point.labels) + least_and_most)


class _Attributes:
    """Writes `KeyValue`s in the field of one tag. What comes again and again is written once: a name has values of one type."""

    def __init__(self, tag: int) -> None:
        self._tag = tag
        self._known: dict[tuple[str, Attribute], bytes] = {}
        self._before: dict[str, bytes] = {}

    def __call__(self, attributes: Iterable[tuple[str, Attribute]]) -> bytes:
        """All of these, one after the other."""
        known = self._known
        return b"".join([known[item] if item in known else self._written(item) for item in attributes])

    def _written(self, item: tuple[str, Attribute]) -> bytes:
        name, value = item
        kind = type(value)
        if kind is str:
            told = _text(0x0A, value)  # type: ignore[arg-type]
        elif kind is int:
            if 128 <= value < 16384:  # type: ignore[operator]
                return self._small(name, value)  # type: ignore[arg-type]
            told = b"\x18" + _varint(value & 0xFFFFFFFFFFFFFFFF)  # type: ignore[operator]
        elif kind is float:
            told = b"\x21" + _DOUBLE(value)
        elif kind is bool:
            told = b"\x10\x01" if value else b"\x10\x00"
        else:
            told = _part(0x2A, b"".join(_part(0x0A, _text(0x0A, one)) for one in value))  # type: ignore[union-attr]
        written = _part(self._tag, _named(name) + _part(0x12, told))
        if (kind is str and len(value) < _OFTEN) or kind is bool or (kind is int and 0 <= value < 128):  # type: ignore[arg-type, operator]
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[item] = written
        return written

    def _small(self, name: str, number: int) -> bytes:
        """A number of two bytes, as most numbers of events and counts of tokens are: what stands before it is known."""
        before = self._before.get(name)
        if before is None:
            named = _named(name)
            before = self._before[name] = bytes((self._tag,)) + _varint(len(named) + 5) + named + b"\x12\x03\x18"
        return before + bytes((number & 127 | 128, number >> 7))


_OFTEN, _MOST = 256, 8192           # characters of a text that is likely to come again, or a number below; how many are kept
_OF_RESOURCE, _OF_SCOPE, _OF_EVENT, _OF_SPAN, _OF_SUM, _OF_HISTOGRAM = map(_Attributes, (0x0A, 0x1A, 0x1A, 0x4A, 0x3A, 0x4A))


@lru_cache(maxsize=256)
def _named(name: str) -> bytes:
    return _text(0x0A, name)


@lru_cache(maxsize=1024)
def _span_named(name: str) -> bytes:
    return _text(0x2A, name)


def _text(tag: int, text: str) -> bytes:
    return _part(tag, text.encode("utf-8", "replace"))


def _part(tag: int, held: bytes) -> bytes:
    return bytes((tag,)) + _varint(len(held)) + held


def _varint(number: int) -> bytes:
    if number < 128:
        return bytes((number,))
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _nanos(seconds: float) -> int:
    return int(seconds * 1e9)


def _fields(data: bytes) -> Iterable[tuple[int, int | bytes]]:
    """Number and value of each field of a message. Raises ValueError where it is cut off, or has what no such message has."""
    place = 0
    while place < len(data):
        tag, place = _read_varint(data, place)
        if tag & 7 == 0:
            value, place = _read_varint(data, place)
            yield tag >> 3, value
        elif tag & 7 == 2:
            length, place = _read_varint(data, place)
            if place + length > len(data):
                raise ValueError("it is cut off")
            yield tag >> 3, data[place:place + length]
            place += length
        else:
            raise ValueError(f"a field of type {tag & 7}")


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it is cut off")
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise ValueError("a number of more than ten bytes")
