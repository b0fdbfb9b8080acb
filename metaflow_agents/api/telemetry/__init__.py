"""Export to OpenTelemetry: what a run's journal says, sent to a collector while the run goes on, or afterwards."""

from __future__ import annotations

from metaflow_agents.api.telemetry.live import exporting
from metaflow_agents.api.telemetry.target import Target, target_of

__all__ = ["Target", "exporting", "target_of"]
