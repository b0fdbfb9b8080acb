"""A run's journal as spans and metrics of OpenTelemetry: a pure fold of its events, and never a second record."""

from __future__ import annotations

from metaflow_agents.views.spans.content import Content
from metaflow_agents.views.spans.fold import Spans
from metaflow_agents.views.spans.metrics import Meters
from metaflow_agents.views.spans.span import Span, SpanEvent

__all__ = ["Content", "Meters", "Span", "SpanEvent", "Spans"]
