"""What a span is, before it is encoded for the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, Attribute]
Kind = Literal["internal", "client"]


class SpanEvent(NamedTuple):
    """Something that happened during a span; `at` is Unix time in seconds."""

    name: str
    at: float
    attributes: Attributes


NO_EVENTS: list[SpanEvent] = []
"""Of most spans, which share it: it is never added to."""


@dataclass(slots=True)
class Span:
    """One span of a trace. `trace` has 16 bytes, `id` 8, `parent` 8 or none (the root of the trace).

    `start` and `end` are Unix time in seconds. `error` is the value of `error.type`, empty where it ended well; `message` says
    more, where content is exported. `link` is the root of another trace: its trace and span.
    """

    trace: bytes
    id: bytes
    parent: bytes
    name: str
    kind: Kind
    start: float
    end: float = 0.0
    attributes: Attributes = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=lambda: NO_EVENTS)
    dropped: int = 0
    error: str = ""
    message: str = ""
    link: tuple[bytes, bytes] | None = None
